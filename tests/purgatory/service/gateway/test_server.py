"""Gateway: beyond loopback it needs TLS; it goes on without its server."""

import contextlib
import socket

import pytest

from purgatory.service.errors import ConfigError
from purgatory.service.gateway.callers import Connector
from purgatory.service.gateway.server import StreamingProtocol, TLSFiles
from purgatory.service.http import listening
from tests.testing.eventually import eventually
from tests.testing.gateway_outcomes import end, events
from tests.testing.purgatory_harness import HANG


def test_beyond_loopback(start, tmp_path):
    """There must be TLS, whose files must be there, and a pair."""
    with pytest.raises(ConfigError, match=r"others could read the tokens"):
        start(bind="0.0.0.0:0")
    with pytest.raises(ConfigError, match="come together"):
        TLSFiles(tmp_path / "cert.pem", None)
    with pytest.raises(ConfigError, match=r"cert\.pem: there is no such file"):
        TLSFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(ConfigError, match=r"cert\.pem, .*key\.pem: expected a certificate in PEM"):
        TLSFiles(tmp_path / "cert.pem", tmp_path / "key.pem")


def test_the_end_of_the_server(serve, start):
    """Requests are answered 504 then, and the gateway goes on."""
    server = serve(memory=True)
    gateway = start(server.address, connector=Connector(server.address, {"timeout": 0.2}))
    with gateway.program() as program:
        eventually(lambda: program.get("/v1/outcomes").is_success)  # 0.2 s may not be enough
        server.close()
        answer = program.get("/v1/outcomes")
        assert (answer.status_code, answer.json()["code"]) == (504, "timeout")
        assert program.get("/healthz").text == "ok\n"


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /v1/outcomes HT", b"GET /v1/outcomes HTTP/1.1\r\nHost: localhost\r\n\r\n"],
)
def test_many_strangers(gateway, monkeypatch, said):
    """They give way to each other: a stream and the connection of a program go on."""
    monkeypatch.setattr(StreamingProtocol, "max_connections", 20)
    port = int(gateway.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        shop = stack.enter_context(gateway.program())
        shop.get("/v1/outcomes")
        stream = stack.enter_context(shop.stream("GET", "/v1/outcomes/stream"))
        found = events(stream.iter_lines())
        strangers = []
        for _ in range(60):
            strangers.append(socket.create_connection(("127.0.0.1", port), HANG))
            stack.callback(strangers[-1].close)
            strangers[-1].sendall(said)
        with contextlib.suppress(ConnectionError):
            while strangers[0].recv(1000):  # it was answered, and has given way
                pass
        end(shop, "a")
        assert next(found)["op_id"] == "a"


def ask(peer):
    """Send a request, and take the whole answer."""
    peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"ok\n"):
        received = peer.recv(4096)
        assert received, answer
        answer += received


def test_an_idle_connection(start, monkeypatch):
    """It is kept as long as it is said, beyond the time that a request has."""
    monkeypatch.setattr(listening, "REQUEST_S", 0.3)
    gateway = start(keep_alive=60.0)
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), HANG) as peer:
        for _ in range(3):
            ask(peer)
            peer.settimeout(0.8)
            with pytest.raises(TimeoutError):
                peer.recv(1)  # it is not closed
            peer.settimeout(HANG)
        peer.sendall(b"GET /healthz HT")  # and the rest of a request has its time again
        assert peer.recv(1) == b""


def test_it_ends_an_idle_connection(start):
    """After its time; one that was just made has that of a request."""
    gateway = start(keep_alive=1.0)
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), HANG) as peer:
        ask(peer)
        assert peer.recv(1) == b""


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
def test_a_bad_time(start, seconds):
    """It says what is expected."""
    with pytest.raises(ConfigError, match=r"keep_alive is .*; expected 1 to"):
        start(keep_alive=seconds)
