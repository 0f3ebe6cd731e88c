"""How HTTP is served: strangers can neither fill a server nor flood its log; addresses."""

import asyncio
import contextlib
import errno
import http.client
import logging
import logging.handlers
import queue
import resource
import socket

import pytest

from purgatory.service import rare_log
from purgatory.service.http import listening
from purgatory.service.http.listening import AcceptErrors
from tests.testing.purgatory_harness import HANG
from tests.testing.web_servers import serve, status

HALF_A_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "

HALF_A_BODY = HALF_A_REQUEST + b"x\r\nContent-Length: 99999\r\n\r\nhalf"


@pytest.fixture
def web():
    with serve() as web:
        yield web


@pytest.mark.parametrize("field", ["Upgrade: h2c\r\nConnection: Upgrade", "Content-Length: -1"])
def test_strangers_write_no_lines(web, field, caplog):
    """Neither a request for another protocol nor a request that is no HTTP is logged."""
    with socket.create_connection((web.addr, web.port), HANG) as peer:
        peer.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n".encode())
        assert peer.recv(1000).startswith(b"HTTP/1.1 ")
    assert not caplog.records


def test_the_loggers_of_a_program_that_runs_uvicorn():
    """They stay as they are, and get no line of a request: a server may run within a program."""
    lines = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(lines)
    bad = b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n"
    loggers = [logging.getLogger(f"uvicorn.{name}") for name in ("access", "error")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        with serve() as web:
            assert status(web) == 200
            with socket.create_connection((web.addr, web.port), HANG) as peer:
                peer.sendall(bad)
                assert peer.recv(1000).startswith(b"HTTP/1.1 400")
        assert [logger.level for logger in loggers] == [logging.INFO] * 2
        assert all(handler in logger.handlers and logger.propagate for logger in loggers)
        found = [lines.get() for _ in range(lines.qsize())]  # of start and end
        assert {(line.name, line.levelno) for line in found} <= {("uvicorn.error", logging.INFO)}
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


def test_answers_do_not_wait_for_acknowledgements():
    """Connections send small parts at once: each answer has a head and a body."""
    with listening.listen("127.0.0.1:0") as listener:
        with socket.create_connection(listener.getsockname(), HANG):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def connect(web, *data):
    """Return an open connection that has sent so much."""
    peer = socket.create_connection((web.addr, web.port), HANG)
    for part in data:
        peer.sendall(part)
    return peer


class TestSlowPeers:
    def test_many_halves_of_requests(self, web):
        """However many are held, the next request is answered."""
        with contextlib.ExitStack() as stack:
            for _ in range(2 * listening.MAX_CONNECTIONS):
                stack.enter_context(connect(web, HALF_A_REQUEST))
            assert status(web) == 200
            assert len(web._server.server_state.connections) <= listening.MAX_CONNECTIONS

    @pytest.mark.parametrize("said", [b"", HALF_A_REQUEST, HALF_A_BODY])
    def test_the_time_for_a_request(self, web, monkeypatch, said):
        """A connection without a complete request ends, though it sends a byte now and then."""
        monkeypatch.setattr(listening, "REQUEST_S", 0.2)
        with connect(web, said) as peer:
            peer.settimeout(0.05)
            with contextlib.suppress(ConnectionError):
                for _ in range(int(HANG / 0.05)):
                    with contextlib.suppress(TimeoutError):
                        if not peer.recv(1000):
                            break
                    peer.sendall(b"a" if said else b"")
                else:
                    pytest.fail("the connection has not ended")

    def test_a_connection_is_used_again(self, web, monkeypatch):
        """The time counts anew after each answer."""
        monkeypatch.setattr(listening, "REQUEST_S", HANG)
        connection = http.client.HTTPConnection(web.addr, web.port, timeout=HANG)
        with contextlib.closing(connection):
            for _ in range(3):
                connection.request("GET", "/readyz")
                assert connection.getresponse().read() == b"ok\n"
            assert len(web._server.server_state.connections) == 1


class TestAcceptErrors:
    def test_one_line_a_minute(self, caplog):
        """However often accepting fails."""
        now = [1000.0]
        handler = AcceptErrors(lambda: now[0])
        error = OSError(errno.EMFILE, "Too many open files")
        loop = asyncio.new_event_loop()
        with contextlib.closing(loop):
            for _ in range(120):
                for _ in range(100):
                    handler(loop, {"message": "socket.accept()", "exception": error})
                now[0] += 1
        line = "no connection can be accepted at present: Too many open files"
        more = f"{line} (and 5,999 times since the last line)"
        assert caplog.messages == [line, more]

    def test_other_errors(self, caplog):
        """They are logged as ever."""
        loop = asyncio.new_event_loop()
        with contextlib.closing(loop):
            AcceptErrors()(loop, {"message": "what", "exception": ValueError("why")})
        [record] = caplog.records
        assert (record.levelno, record.exc_info[0]) == (logging.ERROR, ValueError)

    def test_out_of_descriptors(self, web):
        """There is one line for all that wait; when there is room they are answered."""
        assert status(web) == 200  # its thread has all that it needs
        lines = queue.SimpleQueue()
        handler = logging.handlers.QueueHandler(lines)
        peers = [socket.socket() for _ in range(20)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.ExitStack() as stack:
            for logger in (logging.getLogger("asyncio"), rare_log.log):
                logger.addHandler(handler)
                stack.callback(logger.removeHandler, handler)
            for peer in peers:
                peer.settimeout(HANG)
                stack.enter_context(peer)
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            for peer in peers:
                peer.connect((web.addr, web.port))
                peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert "Too many open files" in lines.get(timeout=HANG).getMessage()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert all(peer.recv(1000).startswith(b"HTTP/1.1 200") for peer in peers)
        assert lines.empty()
