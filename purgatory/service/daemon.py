"""ServiceDaemon: a server with its journal, authentication, live page and metrics.

One thread makes, starts, reloads and closes the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from purgatory.service.auth.authenticator import authenticator_for
from purgatory.service.config import Config, host_names
from purgatory.service.process_metrics import register_process_metrics
from purgatory.service.server.server import Server
from purgatory.service.server_assembly import ServerAssembly

if TYPE_CHECKING:
    from purgatory.service.http.server import WebServer


class ServiceDaemon:
    """The service of `config`, as `purgatory serve` runs it; also a context manager.

    `announce` gets a line and facts when the server serves. Raises ConfigError for a bind that
    needs keys, KeysError for unusable keys.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[str, Mapping[str, object]], None] = lambda *_: None,
    ) -> None:
        if not isinstance(config, Config):
            raise TypeError(f"config is {config!r}; expected a Config")
        if not callable(announce):
            raise TypeError(f"announce is {announce!r}; expected a function")
        self._config = config
        self._announce = announce
        self._closing = False
        self._http: WebServer | None = None
        authenticator = authenticator_for(config)
        self._assembly = ServerAssembly(config, authenticator)
        self.server: Server = self._assembly.server
        if authenticator is not None:
            self.server.on_reload(authenticator.reload)

    @property
    def url(self) -> str:
        """The URL of the live page; empty: no page."""
        return "" if self._http is None else self._http.url

    @property
    def failure(self) -> Exception | None:
        """Why the server has ended by itself, if so."""
        return self.server.failure

    def start_progress(self) -> str:
        """Describe the progress of a start; empty: the server runs. Any thread."""
        return self.server.start_progress()

    def start(self) -> None:
        """Start the server, then HTTP. Raises what `Server.start` raises, and JournalError."""
        self._assembly.start()
        if self._config.http_bind:
            try:
                self._start_http()
            except BaseException:
                self.server.close()
                raise
        pending = self.server.stats().pending
        facts = {"address": self.server.address, "pending": pending}
        self._announce(f"serving at {self.server.address}, {pending:,} waiting", facts)

    def _start_http(self) -> None:
        from purgatory.service.http.server import WebServer  # noqa: PLC0415 - a fifth of the start

        register_process_metrics(self.server.registry)
        self._http = WebServer(
            self._config.http_bind,
            status=self._assembly.status(),
            registry=self.server.registry,
            health=self._health_error,
            ready=self._readiness_error,
            hosts=host_names(self._config.http_hosts, "http_hosts"),
        )

    def on_end(self, call: Callable[[], None]) -> None:
        """Call `call` in a thread of the server when it ends."""
        self.server.on_end(call)

    def reload(self) -> None:
        """Read the allow list again."""
        self.server.reload()

    def _health_error(self) -> str:
        if self._closing and self.server.failure is None:  # its threads may end
            return ""
        return self.server.health().broken

    def _readiness_error(self) -> str:
        return "closing" if self._closing else self.server.health().not_ready

    def close(self) -> None:
        """Close the server, then HTTP, which shows the closing. Idempotent."""
        self._closing = True
        try:
            self.server.close()
        finally:
            if self._http is not None:
                self._http.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has connections and threads")
