"""Server: the parts of a server, put together, started and closed.

`service-network` owns the socket (see `Network`); `service-store` owns the database and the state
(see `StoreLoop`), and lends them to the network thread while idle. One thread starts and closes a
server; any thread may call `stats`, `now_ms`, `wait` and `reload`.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import zmq
from prometheus_client import CollectorRegistry

from _purgatory_cpython.threads import InterruptibleThread
from mq import Mailbox, MailboxClosed
from purgatory import metrics
from purgatory.errors import StoreError
from purgatory.service.auth.authenticator import SocketSecurity
from purgatory.service.config import Config
from purgatory.service.errors import ServerError
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.server.clock import ClockSources
from purgatory.service.server.commands import CloseServer, NetworkCommand, ReloadAllowList
from purgatory.service.server.journal.journal_sink import JournalSink
from purgatory.service.server.network.accept_gate import most_descriptors
from purgatory.service.server.network.network import Network
from purgatory.service.server.network.unfinished_messages import looks_at_peers
from purgatory.service.server.recovery import load_state, start_clock
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.server_health import HealthReport, report_health
from purgatory.service.server.state import ServerState
from purgatory.service.server.stats import ServerStats
from purgatory.service.server.store_activity import StoreActivity
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.transactions.transaction_observer import TransactionObserver
from purgatory.service.server.validation import RequestValidator, limits_of
from purgatory.service.server.watchdog import Watchdog
from purgatory.service.store.contract import Store
from purgatory.service.store.data_directory import data_directory_lock
from purgatory.service.store.opening import open_file
from purgatory.version import package_version
from timingwheel.lowlevel import Reaper

log: logging.Logger = logging.getLogger(__name__)

# Seconds beyond `timeout` that `close` waits for the threads.
JOIN_GRACE_S = 1.0
# Seconds to close a server whose files are gone.
_LOST_CLOSE_S: Final = 1.0


class Server:
    """A server of delayed operations; as a context manager, started and closed.

    `registry`: for the metrics; by default a new one.
    `sink`: the journal.
    `secure`: see `SocketSecurity`.
    `owns_process`: no other code opens descriptors: the server counts them to limit connections.
    `guard`: see `Connections`.
    `more_figures`: added to clients' statistics.

    A server ends by `close`, a failure of its store, or `fail`: then `failure` says why.
    """

    def __init__(
        self,
        config: Config,
        *,
        registry: CollectorRegistry | None = None,
        sink: JournalSink | None = None,
        secure: "SocketSecurity | None" = None,
        owns_process: bool = False,
        open_store: Callable[[Path | None], Store] | None = None,
        guard: Callable[[], bool] | None = None,
        more_figures: Callable[[], dict[str, int]] = dict,
    ) -> None:
        self.config = config
        self._more_figures = more_figures
        self._loading: ServerState | None = None
        self._guard = guard
        self.registry: CollectorRegistry = CollectorRegistry() if registry is None else registry
        self._sink = sink
        self._secure = secure
        self._owns_process = owns_process
        self._open_store = open_store or partial(open_file, note=partial(setattr, self, "_opening"))
        self._opening = "opening the database"
        self._end_callbacks: list[Callable[[], None]] = []
        self._reload_callbacks: list[Callable[[], None]] = []
        # Set by `start`.
        self._parts: ServerParts | None = None
        self._store: Store
        self._store_thread: Reaper
        self._network_thread: threading.Thread
        self._cleanup: contextlib.ExitStack | None = None
        self._ended = threading.Event()
        self._started_at = time.monotonic()
        #: The bound address, with port; empty before `start`.
        self.address: str = ""
        #: Why the server ended by itself; None if it has not.
        self.failure: Exception | None = None

    @property
    def state(self) -> ServerState:
        """The server's memory, for statistics. Exists after `start`."""
        return self._running.store_loop.state

    @property
    def activity(self) -> StoreActivity:
        """The store loop's activity and commits. Exists after `start`."""
        return self._running.store_loop.activity

    @property
    def _running(self) -> "ServerParts":
        if self._parts is None:
            raise ServerError("the server was not started")
        return self._parts

    def start(self) -> None:
        """Open the database, load it, listen. Raises ServerError, StoreError."""
        if self._parts is not None:
            raise ServerError("the server was started before; make another one")
        self._started_at = time.monotonic()
        with contextlib.ExitStack() as roll_back:
            if self.config.database is not None:
                roll_back.enter_context(data_directory_lock(self.config.data_dir))
            store = self._store = self._open_store(self.config.database)
            roll_back.callback(store.close)
            parts = self._build(store)
            store_loop, network = parts
            roll_back.callback(metrics.unregister, store_loop.state.purgatory, self.registry)
            if self._sink is not None:
                roll_back.callback(self._sink.close)
            store_loop.start()
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            roll_back.callback(context.destroy, 0)
            if self._secure is not None:
                roll_back.callback(self._secure.close)
            config, most = self.config, 0
            if self._owns_process:
                most = most_descriptors(config.max_clients, config.max_memory)
            self.address = network.listen(context, config.bind, self._secure, most)
            self._store_thread = Reaper(store_loop, store_loop, "service-store")
            self._network_thread = InterruptibleThread(
                target=network.run, name="service-network", daemon=True
            )
            self._parts = parts
            roll_back.callback(self._watch(store, network).close)
            self._store_thread.start()
            self._network_thread.start()
            self._cleanup = roll_back.pop_all()

    def _watch(self, store: Store, network: Network) -> Watchdog:
        store.trouble()
        looks = looks_at_peers(
            self.address,
            network.reception.gates,
            message_bytes=self.config.max_message_bytes,
            max_memory=self.config.max_memory,
            is_crowded=lambda: not network.gate.is_open,
        )
        looks.append(partial(self._look_at_store, store, network))
        watchdog = Watchdog(looks)
        watchdog.start()
        return watchdog

    def _look_at_store(self, store: Store, network: Network) -> None:
        """End the server if its files are gone: changes would be lost."""
        why = store.trouble()
        if why and store.lost is None and not store.is_closing:
            self.failure = store.lost = StoreError(why, fatal=True)
            log.critical("the server ends: %s", why)
            _send(network.mailbox, CloseServer(_LOST_CLOSE_S))

    def fail(self, failure: Exception) -> None:
        """End the server soon, without more answers. Any thread.

        The caller has stopped the store, see `Store.stop`.
        """
        self.failure = failure
        if self._parts is not None:
            _send(self._parts.network.mailbox, CloseServer(0))

    def _build(self, store: Store) -> "ServerParts":
        return build_parts(
            store,
            self.config,
            stats=lambda: self.stats().as_dict() | self._more_figures(),
            ended=self._end,
            registry=self.registry,
            sink=self._sink,
            guard=self._guard,
            note_state=partial(setattr, self, "_loading"),
        )

    def start_progress(self) -> str:
        """Return how far a start is; empty: it runs. Any thread."""
        state = self._loading
        if self._parts is not None:
            return ""
        if state is None:
            return self._opening
        return f"{len(state.known):,} operations and jobs are read"

    def _end(self, failure: Exception | None) -> None:
        if failure is not None:
            self.failure = failure
        self._ended.set()
        for call in self._end_callbacks:
            call()

    def stats(self) -> ServerStats:
        """Return the statistics. O(1); any thread."""
        store_loop, network = self._running
        state, activity, reception = store_loop.state, store_loop.activity, network.reception
        health = self.health()
        jobs = state.leases.counts
        return ServerStats(
            pending=state.purgatory.delayed,
            unacknowledged=state.retention.unacknowledged,
            held=len(state.held),
            repeats=len(state.repeats),
            connections=len(network.connections.by_route),
            messages=reception.messages,
            submitted=store_loop.submitted,
            **store_loop.ended,
            refused=reception.refused + store_loop.handler.refused,
            commits=activity.commits,
            commit_seconds=activity.commit_seconds,
            commit_failures=activity.commit_failures,
            store_backlog=store_loop.backlog,
            store_bytes=self._store.stored_bytes(),
            uptime_seconds=time.monotonic() - self._started_at,
            memory_bytes=state.memory_bytes,
            max_memory_bytes=state.max_memory,
            ready=int(not health.not_ready),
            last_commit_age_seconds=health.last_commit_age_s,
            oldest_due_age_seconds=health.oldest_due_age_s,
            failing_seconds=health.failing_s,
            next_due_seconds=health.next_due_s,
            jobs_waiting=jobs.waiting,
            jobs_leased=jobs.leased,
            jobs_dead=jobs.dead,
            remembered_ids=state.remembered.total,
            max_remembered_ids=state.remembered.most,
        )

    def health(self) -> HealthReport:
        """Return whether it works and is ready. O(1); any thread."""
        store_loop = self._running.store_loop
        now_ms = store_loop.clock.now_ms()
        return report_health(
            store_loop.activity, self._ended_thread(), now_ms, self._store.waits_for()
        )

    def _ended_thread(self) -> str:
        if self.failure is not None:
            return str(self.failure)
        if self._store_thread.ended():
            return "the store thread has ended"
        return "" if self._network_thread.is_alive() else "the network thread has ended"

    def now_ms(self) -> int:
        """Return Unix milliseconds by the server's clock; any thread."""
        return self._running.store_loop.clock.now_ms()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the server's end; False after `timeout` seconds."""
        return self._ended.wait(timeout)

    def on_end(self, call: Callable[[], None]) -> None:
        """Call `call`, in the network thread, at the server's end."""
        self._end_callbacks.append(call)

    def on_reload(self, call: Callable[[], None]) -> None:
        """Call `call` at each `reload`."""
        self._reload_callbacks.append(call)

    def reload(self) -> None:
        """Read the allow list again; drop connections not on it."""
        for call in self._reload_callbacks:
            call()
        if self._parts is not None:
            _send(self._parts.network.mailbox, ReloadAllowList())

    @property
    def is_closed(self) -> bool:
        """Whether threads have ended, and store and address are released."""
        return self._cleanup is None

    def close(self, timeout: float | None = None) -> None:
        """Answer and commit what is in flight, end the threads. Idempotent.

        `timeout`: seconds, default `config.close_timeout`.
        """
        parts = self._parts
        if parts is None or self._cleanup is None:
            return
        seconds = self.config.close_timeout if timeout is None else timeout
        _send(parts.network.mailbox, CloseServer(seconds))
        self._network_thread.join(seconds + JOIN_GRACE_S)
        self._store_thread.join(JOIN_GRACE_S)
        if self._network_thread.is_alive() or not self._store_thread.ended():
            # Only the end of the process can close the database and socket that they use.
            why = "the disk hangs" if parts.store_loop.activity.commit_since_ns else "they are busy"
            log.error("the server's threads have not ended within %g s: %s", seconds, why)
            return
        self._cleanup.close()
        self._cleanup = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has connections and threads")

    def __exit__(self, *error: object) -> None:
        self.close()


class ServerParts(NamedTuple):
    """The loops of a server's two threads."""

    store_loop: StoreLoop
    network: Network


def build_parts(
    store: Store,
    config: Config,
    *,
    stats: Callable[[], dict[str, Any]],
    ended: Callable[[Exception | None], None],
    registry: CollectorRegistry | None = None,
    sink: JournalSink | None = None,
    platform: Platform = REAL_PLATFORM,
    clocks: ClockSources | None = None,
    observer: TransactionObserver | None = None,
    guard: Callable[[], bool] | None = None,
    note_state: Callable[[ServerState], None] = lambda _: None,
) -> ServerParts:
    """Load a store, and put a server of it together. Raises StoreError, ServerError.

    `stats`: see `RequestHandler`. `ended`: see `Network`.
    """
    validator = RequestValidator(limits_of(config))
    clock = start_clock(store, clocks)
    state = load_state(
        store,
        clock,
        registry,
        config.max_memory,
        config.max_remembered,
        int(config.remember_ended * 1000),
        note_state,
    )
    handler = RequestHandler(state, store, validator, stats, f"purgatory {package_version()}")
    mailbox: Mailbox[NetworkCommand] = platform.mailbox()

    store_loop = StoreLoop(
        state,
        store,
        clock,
        handler,
        send=partial(_send, mailbox),
        retention_ms=int(config.retention * 1000),
        sink=sink,
        platform=platform,
        observer=observer,
    )
    network = Network(
        validator,
        mailbox,
        store_loop,
        ended,
        max_clients=config.max_clients,
        platform=platform,
        guard=guard,
    )
    return ServerParts(store_loop, network)


def _send(mailbox: Mailbox[NetworkCommand], command: NetworkCommand) -> None:
    with contextlib.suppress(MailboxClosed):  # the network thread has ended
        mailbox.send(command)
