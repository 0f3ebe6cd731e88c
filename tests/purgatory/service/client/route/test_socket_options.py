"""The options of a client's sockets: when a connection counts as lost."""

import subprocess
import sys
from datetime import timedelta

import pytest
import zmq

from purgatory.service import Client
from purgatory.service.client.route.socket_options import SocketOptions, socket_options
from tests.testing.purgatory_harness import HANG


@pytest.mark.parametrize("seconds", [None, 0.1, 2, 60.0, 6000])
def test_when_a_connection_is_lost(seconds):
    """After 5 s, or as long as it is said: the kernel asks the host; ZeroMQ only if told to."""
    options = SocketOptions() if seconds is None else SocketOptions(None, seconds)
    lost = 5.0 if seconds is None else seconds
    context = zmq.Context()
    with context.socket(zmq.DEALER) as socket:
        options.configure(socket, "tcp://a:1", pings=True)
        pings = socket.getsockopt(zmq.HEARTBEAT_IVL), socket.getsockopt(zmq.HEARTBEAT_TIMEOUT)
        options.configure(socket, "tcp://a:1")
        found = {
            name: socket.getsockopt(getattr(zmq, name))
            for name in ("TCP_MAXRT", "HEARTBEAT_IVL", "TCP_KEEPALIVE", "TCP_KEEPALIVE_IDLE")
        }
    context.term()
    assert sum(pings) == found["TCP_MAXRT"] == 1000 * lost
    assert pings[0] == found["TCP_MAXRT"] // 3
    assert found["HEARTBEAT_IVL"] == 0
    assert found["TCP_KEEPALIVE"] == 1
    assert found["TCP_KEEPALIVE_IDLE"] == max(1, int(lost / 5))


@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2), "2s"])
def test_a_time(value):
    """It is any duration."""
    assert socket_options(lost_after=value).lost_after_s == 2.0


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((value, ValueError) for value in (0, -1, 1e9, float("nan"), float("inf"), "soon")),
        *((value, TypeError) for value in (b"5", True, None)),
    ],
)
def test_a_bad_time(value, error):
    """It is refused, and says what is expected."""
    with pytest.raises(error, match=r"lost_after.*; expected"):
        Client("tcp://127.0.0.1:1", lost_after=value)


_UNREAD = """
import socket, sys, zmq
from purgatory.service.client.route.socket_options import SocketOptions, socket_options
from tests.testing.raw_connections import frame, greet, reset

listener = socket.create_server(("127.0.0.1", 0))
client = zmq.Context().socket(zmq.DEALER)
SocketOptions(lost_after_s=0.6).configure(client, "tcp:", pings=True)
monitor = client.get_monitor_socket(zmq.EVENT_DISCONNECTED)
client.connect("tcp://127.0.0.1:%d" % listener.getsockname()[1])
server, _ = listener.accept()
greet(server, b"ROUTER")
server.sendall(frame(5, more=False) * 3000)
assert client.poll(10_000)
reset(server)
listener.close()
monitor.poll(1500)  # heartbeats are due meanwhile
print(len(client.recv()))
"""


def test_a_server_that_is_lost_while_much_is_unread():
    """A program that reads nothing for a while goes on."""
    done = subprocess.run(
        [sys.executable, "-c", _UNREAD], capture_output=True, text=True, timeout=HANG, check=False
    )
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
