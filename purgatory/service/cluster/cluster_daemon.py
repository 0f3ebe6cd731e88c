"""ClusterDaemon: a server in a cluster, with its live page and metrics.

HTTP answers from the start, in each role: a standby is healthy, and not ready. The main thread
makes, starts, reloads and closes the daemon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from purgatory.service.auth.authenticator import authenticator_for
from purgatory.service.cluster.cluster_server import ClusterServer
from purgatory.service.cluster.cluster_status import (
    ClusterCollector,
    ClusterStatus,
    JoinedRegistry,
    Role,
)
from purgatory.service.cluster.key_check import KeyMark, check_keys
from purgatory.service.cluster.member import Member
from purgatory.service.cluster.standby_page import StandbyPage
from purgatory.service.cluster.standby_socket import StandbySocket
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.config import Config, host_names
from purgatory.service.http.server import WebServer
from purgatory.service.http.snapshot import StatusReader
from purgatory.service.process_metrics import register_process_metrics
from purgatory.service.server.network.accept_gate import most_descriptors
from purgatory.service.store.contract import Store
from purgatory.service.store.data_directory import data_directory_lock
from purgatory.service.store.lease import HeldLease, LeaseRow
from purgatory.service.store.opening import open_lease_row, open_postgres


class SharedDatabase:
    """The database of `config`, shared by several servers."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def open_row(self, holder: str, address: str) -> LeaseRow:
        """Return the row of the lease, for a server with the id `holder`."""
        return open_lease_row(self._config.store, self._config.partition, holder, address)

    def open_store(self, lease: HeldLease) -> Store:
        """Open the store. Raises StoreError."""
        config = self._config
        return open_postgres(config.store, config.partition, lease, config.require_replicated)


class ClusterDaemon:
    """The server that `config` describes; also a context manager.

    `announce` gets each role as a line and as facts. Raises ConfigError, KeysError.
    """

    def __init__(
        self,
        config: Config,
        announce: Callable[[str, Mapping[str, object]], None] = lambda *_: None,
        *,
        database: SharedDatabase | None = None,
    ) -> None:
        self._config = config
        self._announce = announce
        self._database = SharedDatabase(config) if database is None else database
        self._authenticator = authenticator_for(config)
        self._http: WebServer | None = None
        self._page = StandbyPage(self.status)
        self._registry = JoinedRegistry()
        self._lock = contextlib.ExitStack()
        self._closing = False
        self._looks = True
        self._end_callbacks: list[Callable[[], None]] = []
        self.member: Member = Member(
            open_row=self._database.open_row,
            listen=self._listen,
            make_active=self._make_active,
            takeover_after=config.takeover_after,
            address=config.advertise,
            partition=config.partition,
            on_change=self._on_change,
            on_end=self._on_end,
        )
        self._bind = config.bind

    def start_progress(self) -> str:
        """Describe the progress of a start or a loading. Any thread."""
        if (active := self.member.active) is not None:
            return active.assembly.server.start_progress()
        return "looking at the database" if self._looks else ""

    @property
    def url(self) -> str:
        """The URL of the live page, or empty."""
        return "" if self._http is None else self._http.url

    @property
    def failure(self) -> Exception | None:
        """See `Member.failure`."""
        return self.member.failure

    def status(self) -> ClusterStatus:
        """See `Member.status`."""
        return self.member.status()

    def start(self) -> None:
        """Start HTTP, then stand by. Raises ServerError, StoreError, ConfigError, KeysError."""
        try:
            if self._config.journal:
                self._lock.enter_context(data_directory_lock(self._config.own_dir))
            self._check_keys()
            if self._config.http_bind:
                self._start_http()
            self.member.start()
            self._looks = False
        except BaseException:
            self.close()
            raise

    def _check_keys(self) -> None:
        row = self._database.open_row("", "")
        try:
            check_keys(row, KeyMark.of(self._authenticator), self._config.takeover_after)
        finally:
            row.close()

    def _start_http(self) -> None:
        register_process_metrics(self._registry)
        self._registry.register(ClusterCollector(self.status))
        self._http = WebServer(
            self._config.http_bind,
            status=self,
            registry=self._registry,
            health=self._health_error,
            ready=self._readiness_error,
            hosts=host_names(self._config.http_hosts, "http_hosts"),
        )

    def _listen(self, active: Callable[[], str]) -> StandbySocket:
        config = self._config
        socket = StandbySocket(
            self._bind,
            active,
            secure=self._authenticator,
            most_descriptors=most_descriptors(config.max_clients, config.max_memory),
            max_memory=config.max_memory,
        )
        self._bind = socket.address  # its port, if the system chose
        return socket

    def _make_active(self, lease: StoreLease) -> ClusterServer:
        active = ClusterServer(
            replace(self._config, bind=self._bind),
            lease,
            self._database.open_store,
            authenticator=self._authenticator,
            cluster=lambda: self.status().shown(),
        )
        self._registry.joined = active.assembly.server.registry
        return active

    def _on_change(self) -> None:
        status, active = self.status(), self.member.active
        if status.role is Role.ACTIVE and active is not None:
            pending = active.assembly.server.stats().pending
            facts = {"address": status.address, "pending": pending}
            self._announce(f"serving at {status.address}, {pending:,} waiting", facts)
        elif status.role is Role.STANDBY:
            facts = {"address": status.address, "active": status.active}
            self._announce(f"{status.trouble}, at {status.address}", facts)
        if status.role in (Role.STANDBY, Role.CLOSING):
            self._registry.joined = None

    def on_end(self, call: Callable[[], None]) -> None:
        """See `Member`."""
        self._end_callbacks.append(call)

    def _on_end(self) -> None:
        for call in self._end_callbacks:
            call()

    def reload(self) -> None:
        """Read the allow list again."""
        if self._authenticator is not None:
            self._authenticator.reload()
        if (active := self.member.active) is not None:
            active.assembly.server.reload()

    def _shown(self) -> StatusReader | StandbyPage:
        active = self.member.active
        if active is not None and self.status().role is Role.ACTIVE:
            return active.reader or self._page
        return self._page

    def read(self) -> dict[str, Any]:
        """See `StatusReader`."""
        return self._shown().read() | {"uptime_s": self.uptime_s}

    def sample(self) -> tuple[float, ...]:
        """See `StatusReader`."""
        return (self.uptime_s, *self._shown().sample()[1:])

    @property
    def uptime_s(self) -> float:
        """See `StandbyPage.uptime_s`."""
        return self._page.uptime_s

    def _health_error(self) -> str:
        status, active = self.status(), self.member.active
        if self._closing or status.role is not Role.ACTIVE or active is None:
            return "" if self.member.failure is None else str(self.member.failure)
        return "" if active.lease.lost else active.assembly.server.health().broken

    def _readiness_error(self) -> str:
        status, active = self.status(), self.member.active
        if self._closing:
            return "closing"
        # First: a server that loads may retry a refused commit for ever.
        is_required = self._config.require_replicated and status.role is not Role.STANDBY
        if is_required and not status.replicated:
            return "the database has no synchronous standby, and the server requires one"
        if status.trouble or active is None:
            return status.trouble
        return active.assembly.server.health().not_ready

    def close(self) -> None:
        """Hand over, and end. Idempotent."""
        self._closing = True
        try:
            self.member.stop()
        finally:
            if self._http is not None:
                self._http.close()
            self._lock.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
