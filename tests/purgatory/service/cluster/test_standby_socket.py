"""StandbySocket: what clients hear while another server is active."""

import contextlib
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from purgatory.service import ServerError
from purgatory.service.auth.authenticator import CurveAuthenticator
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.cluster.standby_socket import StandbySocket
from purgatory.service.machine_memory import MIN_BYTES
from purgatory.service.protocol import VERSION, Failure, Hello, Query
from tests.purgatory.service.test_memory import resident_bytes
from tests.testing.floods import flood, flood_and_reset
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def listen():
    """Make standbys, closed at the end."""
    with contextlib.ExitStack() as stack:

        def make(active=lambda: "tcp://a:7411", address="tcp://127.0.0.1:*", **others):
            return stack.enter_context(contextlib.closing(StandbySocket(address, active, **others)))

        yield make


def test_every_message_is_answered(listen, peer):
    """With the address of the active server, as it is then."""
    active = ["tcp://a:7411"]
    client = peer(listen(lambda: active[0]))
    expected = Failure(1, "standby", "standby of tcp://a:7411")
    assert client.ask(Hello(1, VERSION, "client")) == expected
    active[0] = ""
    expected = Failure(7, "standby", "standby: no server is active")
    assert client.ask(Query(7, ["id"])) == expected


def test_what_is_no_message_is_answered_as_well(listen, peer):
    """Nobody can make the standby end."""
    client = peer(listen())
    assert client.ask(b"nonsense").code == "standby"
    assert client.ask(b"", b"", b"").code == "standby"


def test_many_clients(listen, peer):
    """More than the socket takes at a time."""
    standby = listen()
    clients = [peer(standby) for _ in range(50)]
    for client in clients:
        client.send(Hello(1, VERSION, "client"))
    assert {client.receive().code for client in clients} == {"standby"}


# A standby that may take little memory, in a process of its own; ends with its input.
STANDBY = """
import contextlib, sys
from purgatory.service.cluster.standby_socket import StandbySocket
from purgatory.service.machine_memory import MIN_BYTES
limits = {"most_descriptors": 1000, "max_memory": MIN_BYTES}
with contextlib.closing(StandbySocket("tcp://127.0.0.1:*", str, **limits)) as standby:
    print(standby.address, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("flood", [partial(flood, 100), flood_and_reset], ids=["one", "many"])
def test_a_standby_beside_floods(flood):
    """Messages of one connection after the other, or without a pause, take bounded memory."""
    peak, stop = 0, threading.Event()
    command = [sys.executable, "-c", STANDBY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        port = int(process.stdout.readline().rpartition(":")[2])
        threads = [threading.Thread(target=flood, args=(port, stop)) for _ in range(2)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            peak = max(peak, resident_bytes(process))
        stop.set()
        for thread in threads:
            thread.join()
        process.communicate("", HANG)
    assert process.returncode == 0
    assert peak < MIN_BYTES * 120 // 100


def test_the_address_is_free_afterwards(listen, peer):
    """At once, for the server that takes over."""
    standby = listen()
    with pytest.raises(ServerError, match="cannot listen at"):
        listen(address=standby.address)
    for _ in range(10):
        assert peer(standby).ask(Hello(1, VERSION, "client")).code == "standby"
        standby.close()
        standby = listen(address=standby.address)


def test_keys(listen, peer, tmp_path):
    """A client of the list is answered as by the active server; one that was removed is not."""
    keys = KeyStore(tmp_path)
    pair = keys.new("friend")
    server_key = keys.new("server").public
    keys.allow("friend", pair.public)
    security = CurveAuthenticator(keys)
    standby = listen(secure=security, most_descriptors=10_000)
    options = {
        "CURVE_SERVERKEY": server_key,
        "CURVE_PUBLICKEY": pair.public,
        "CURVE_SECRETKEY": pair.secret,
    }
    client = peer(standby, **options)
    assert client.ask(Hello(1, VERSION, "client")).code == "standby"
    keys.revoke("friend")
    security.reload()
    client.send(Hello(2, VERSION, "client"))
    assert not client.socket.poll(100)
    keys.allow("friend", pair.public)
    security.reload()
    assert client.ask(Hello(3, VERSION, "client")).seq == 3


def test_an_address_that_is_none(listen):
    """The error is one line."""
    with pytest.raises(ServerError, match="cannot listen at nonsense"):
        listen(address="nonsense")
