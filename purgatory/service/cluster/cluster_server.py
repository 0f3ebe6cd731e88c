"""ClusterServer: the server of a member of a cluster while it has the lease.

For the member's thread.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from purgatory.service.cluster.key_check import KeyMark
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.config import Config
from purgatory.service.http.snapshot import StatusReader
from purgatory.service.server.recovery import note_start
from purgatory.service.server_assembly import ServerAssembly
from purgatory.service.store.contract import SERVER_KEYS, Store
from purgatory.service.store.lease import HeldLease

#: Most seconds for requests in flight.
CLOSE_S: Final = 1.0


class ClusterServer:
    """A server for the time of one lease."""

    def __init__(
        self,
        config: Config,
        lease: StoreLease,
        open_store: Callable[[HeldLease], Store],
        *,
        authenticator: Any,
        cluster: Callable[[], dict[str, Any]],
    ) -> None:
        self.lease = lease
        self._open_store = open_store
        self._store: Store | None = None
        self._is_aborted = False
        self._keys = KeyMark.of(authenticator)
        #: None before the start.
        self.reader: StatusReader | None = None
        self.assembly: ServerAssembly = ServerAssembly(
            config, authenticator, cluster=cluster, open_store=self._open, guard=lease.is_valid
        )

    def _open(self, _: Path | None) -> Store:
        store = self._store = self._open_store(self.lease)
        if self._is_aborted:  # before the store was there to be stopped
            store.stop()
        if store.metadata().get(SERVER_KEYS) != self._keys.text:
            # If the database refuses, the server still answers reads.
            note_start(store, {SERVER_KEYS: self._keys.text})
        return store

    @property
    def failure(self) -> Exception | None:
        """Why the server has ended by itself, if so."""
        return self.assembly.server.failure

    def start(self) -> None:
        """Load the store, and serve. Raises StoreError, ServerError."""
        self.assembly.start()
        self.reader = self.assembly.status()

    def on_end(self, call: Callable[[], None]) -> None:
        """Call `call`, in some thread, when the server ends by itself."""
        self.assembly.server.on_end(call)

    def abort(self, why: Exception) -> None:
        """End soon, without further answers; a hanging commit or load gives up. Any thread."""
        self._is_aborted = True
        if self._store is not None:
            self._store.stop()
        self.assembly.server.fail(why)

    def close(self) -> None:
        """Answer requests in flight, and end; a client that does not read delays no standby."""
        server = self.assembly.server
        server.close(min(CLOSE_S, server.config.close_timeout))
        if not server.is_closed and self._store is not None:
            self._store.stop()  # a hanging commit gives up
            server.close()
