"""ServiceDaemon: a server with its journal, authentication, live page and metrics.

`purgatory serve` runs one. One thread makes, starts, reloads and closes it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from prometheus_client import CollectorRegistry

from purgatory.service.auth.authenticator import authenticator_for, is_local
from purgatory.service.config import split_names
from purgatory.service.errors import ConfigError
from purgatory.service.http.metrics import (
    JournalCollector,
    ServerCollector,
    register_process_metrics,
)
from purgatory.service.http.server import WebServer
from purgatory.service.http.snapshot import StatusReader, read_jobs, read_operations
from purgatory.service.server.journal.parquet_sink import ParquetSink
from purgatory.service.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from purgatory.service.config import Config


class ServiceDaemon:
    """The service that `config` describes; also a context manager. `server` is its `Server`.

    Raises ConfigError for a bind that needs keys if there are none, KeysError for unusable keys.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._closing = False
        self._http: WebServer | None = None
        self._authenticator = authenticator_for(config)
        self._sink = _journal(config)
        self.server: Server = Server(
            config,
            registry=CollectorRegistry(),
            sink=self._sink,
            secure=self._authenticator,
            owns_process=True,
        )
        if self._authenticator is not None:
            self.server.on_reload(self._authenticator.reload)

    @property
    def url(self) -> str:
        """The URL of the live page; empty if there is none."""
        return "" if self._http is None else self._http.url

    def start(self) -> None:
        """Start the server, then HTTP. Raises what `Server.start` raises, and JournalError."""
        server = self.server
        server.start()
        if not self._config.http_bind:
            return
        try:
            self._register_metrics()
            self._http = WebServer(
                self._config.http_bind,
                status=StatusReader(
                    server.state.purgatory,
                    server.stats,
                    server.now_ms,
                    health=server.health,
                    operations=self._shown_operations(),
                    jobs=partial(read_jobs, server),
                    address=server.address,
                ),
                registry=server.registry,
                health=self._health_error,
                ready=self._readiness_error,
                hosts=split_names(self._config.http_hosts),
            )
        except BaseException:
            server.close()
            raise

    def _shown_operations(self) -> Callable[[], dict[str, Any]] | None:
        """Return what reads operations for the page; None: it must not show any.

        The page asks for no key. So it shows them only where each process that can ask for it can
        list them as well, and by no other name of the machine: that would be a proxy's.
        """
        config = self._config
        if self._authenticator is not None or config.http_hosts or not is_local(config.http_bind):
            return None
        return partial(read_operations, self.server)

    def _register_metrics(self) -> None:
        server = self.server
        server.registry.register(ServerCollector(server, self._refused_handshakes))
        register_process_metrics(server.registry)
        if self._sink is not None:
            server.registry.register(JournalCollector(self._sink.stats))

    def _refused_handshakes(self) -> int:
        return 0 if self._authenticator is None else self._authenticator.refused_handshakes

    def _health_error(self) -> str:
        if self._closing and self.server.failure is None:  # its threads end, as they should
            return ""
        return self.server.health().broken

    def _readiness_error(self) -> str:
        return "closing" if self._closing else self.server.health().not_ready

    def close(self) -> None:
        """Close the server, then HTTP, so that closing can be watched. Idempotent."""
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


def _journal(config: Config) -> ParquetSink | None:
    if config.memory or not config.journal:
        return None
    if not config.journal_seconds:
        raise ConfigError("journal_seconds is 0; expected more than 0")
    return ParquetSink(config.journal_dir, seconds=config.journal_seconds)
