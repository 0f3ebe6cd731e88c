"""Gateway: serves the API over HTTP, as a client of a server. For `purgatory gateway`."""

import contextlib
import math
import signal
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn

from purgatory.service.auth.authenticator import is_local
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.config import host_and_port
from purgatory.service.errors import ConfigError
from purgatory.service.gateway.application import make_application
from purgatory.service.gateway.callers import Callers, Connector
from purgatory.service.gateway.health import Health
from purgatory.service.http.listening import (
    BoundedProtocol,
    listen,
    server_config,
    url_of,
)

#: Most seconds of a request: proxies may end longer requests.
MAX_WAIT_S: Final = 30.0
#: Longer than a proxy keeps a connection, as nginx 60 s.
KEEP_ALIVE_S: Final = 75.0
_MOST_KEEP_ALIVE_S: Final = 86_400.0

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class TLSFiles:
    """A certificate and its private key, in PEM files. Raises ConfigError if they are no pair."""

    def __init__(self, certificate: Path | None, key: Path | None) -> None:
        if (certificate is None) != (key is None):
            raise ConfigError("--tls-certificate and --tls-key come together: both, or neither")
        for path in (certificate, key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: there is no such file")
        if certificate is not None:
            _check_pair(certificate, key)
        self.certificate = certificate
        self.key = key


def _check_pair(certificate: Path, key: Path | None) -> None:
    """Raise ConfigError with the names of the files, which no error of `ssl` has."""
    try:
        # Without a password the terminal would be asked.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
    except OSError as error:
        raise ConfigError(
            f"{certificate}, {key}: expected a certificate in PEM, and its private key without a "
            f"password: {error.strerror or error}"
        ) from error


class Gateway:
    """Serves at `bind`, "host:port", until a signal.

    `tls`: required beyond loopback. `hosts`: permitted host names in requests, besides the name in
    `bind`. `max_wait`: see `Callers`. `keep_alive`: seconds that a connection may be idle between
    two requests. Raises ConfigError and ServerError.
    """

    def __init__(
        self,
        bind: str,
        *,
        tokens: TokenStore,
        connector: Connector,
        tls: TLSFiles,
        hosts: Sequence[str] = (),
        max_wait: float = MAX_WAIT_S,
        keep_alive: float = KEEP_ALIVE_S,
    ) -> None:
        host, _ = host_and_port(bind)
        if tls.certificate is None and not is_local(bind):
            raise ConfigError(
                f"bind is {bind!r}: others could read the tokens; expected a loopback address, or "
                "--tls-certificate and --tls-key"
            )
        callers = Callers(tokens, connector, max_wait)
        config = server_config(
            make_application(callers, Health(connector), [host, *hosts]),
            http=StreamingProtocol,
            timeout_keep_alive=math.ceil(_checked_keep_alive(keep_alive)),
            ssl_certfile=tls.certificate,
            ssl_keyfile=tls.key,
        )
        self._server = _Server(config)
        self._server.on_end = callers.end_waits
        self._socket = listen(bind)
        scheme = "http" if tls.certificate is None else "https"
        address, port = self._socket.getsockname()[:2]
        self.url: str = url_of(address, port, scheme)

    def run(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGINT, SIGTERM or `stop`; call `on_start` once listening."""
        self._server.on_start = on_start
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Have `run` return. Any thread."""
        self._server.should_exit = True


def _checked_keep_alive(seconds: float) -> float:
    if not 1 <= seconds <= _MOST_KEEP_ALIVE_S:
        raise ConfigError(
            f"keep_alive is {seconds:g}; expected 1 to {_MOST_KEEP_ALIVE_S:g} seconds"
        )
    return seconds


class _Server(uvicorn.Server):
    """Returns after a signal, which uvicorn would raise again."""

    on_start: Callable[[], None] = staticmethod(lambda: None)
    on_end: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_start()

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        self.on_end()
        await super().shutdown(sockets)


class StreamingProtocol(BoundedProtocol):
    """A connection with bounds for requests, not for answers: streams go on."""

    max_connections = 1000
    _is_idle = False  # between two requests; then `timeout_keep_alive` counts

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle is not None and self.cycle.keep_alive:
            self.stop_deadline()
            self._is_idle = True

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_idle:
            self._is_idle = False
            self.start_deadline()
        super().data_received(data)

    def handle_events(self) -> None:
        """See `H11Protocol`."""
        super().handle_events()
        if self.waits_for_answer():
            self.stop_deadline()
