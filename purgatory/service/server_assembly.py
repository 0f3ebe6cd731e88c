"""ServerAssembly: a server with its journal and figures, without HTTP, for one run.

One thread makes, starts and closes it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from purgatory.service.auth.authenticator import CurveAuthenticator, is_local
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError
from purgatory.service.http.metrics import JournalCollector, ServerCollector
from purgatory.service.http.snapshot import StatusReader, read_jobs, read_operations
from purgatory.service.server.journal.parquet_sink import ParquetSink
from purgatory.service.server.server import Server


class ServerAssembly:
    """The server of `config`, guarded by `authenticator`; `parts` are for `Server`.

    `cluster`: see `StatusReader`.
    """

    def __init__(
        self,
        config: Config,
        authenticator: CurveAuthenticator | None,
        *,
        cluster: Callable[[], dict[str, Any]] | None = None,
        **parts: Any,
    ) -> None:
        self._config = config
        self._authenticator = authenticator
        self._cluster = cluster
        self._sink = _journal(config)
        self.server: Server = Server(
            config,
            registry=CollectorRegistry(),
            sink=self._sink,
            secure=authenticator,
            owns_process=True,
            more_figures=self._cluster_figures,
            **parts,
        )

    def _cluster_figures(self) -> dict[str, int]:
        if self._cluster is None:
            return {}
        status = self._cluster()
        return {"standbys": len(status["standbys"]), "replicated": int(bool(status["replicated"]))}

    def start(self) -> None:
        """Start the server and its metrics. Raises as `Server.start`, and JournalError."""
        self.server.start()
        try:
            self._register_metrics()
        except BaseException:
            self.server.close()
            raise

    def status(self) -> StatusReader:
        """Return the reader of the page's figures, after `start`."""
        server = self.server
        return StatusReader(
            server.state.purgatory,
            server.stats,
            server.now_ms,
            health=server.health,
            operations=self._shown_operations(),
            jobs=partial(read_jobs, server),
            cluster=self._cluster,
            address=server.address,
        )

    def _shown_operations(self) -> Callable[[], dict[str, Any]] | None:
        """Return the reader of the page's operations; None: the page must not show any.

        The page asks for no key. So it shows operations only where each process that can open the
        page can list them, and under no further host name, which would be a proxy's.
        """
        config = self._config
        if self._authenticator is not None or config.http_hosts or not is_local(config.http_bind):
            return None
        return partial(read_operations, self.server)

    def _register_metrics(self) -> None:
        server = self.server
        server.registry.register(ServerCollector(server, self._refused_handshakes))
        if self._sink is not None:
            server.registry.register(JournalCollector(self._sink.stats))

    def _refused_handshakes(self) -> int:
        return 0 if self._authenticator is None else self._authenticator.refused_handshakes


def _journal(config: Config) -> ParquetSink | None:
    if config.memory or not config.journal:
        return None
    if not config.journal_seconds:
        raise ConfigError("journal_seconds is 0; expected more than 0")
    return ParquetSink(config.journal_dir, seconds=config.journal_seconds)
