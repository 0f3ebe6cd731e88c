"""Member: the life of a server among several: standby, takeover, load, active, and again.

The thread `service-member` runs the life. A fenced server stands by again, in the same process. A
planned end, by `stop` or a request to hand over, answers requests in flight and leaves the lease
without a holder, so a standby takes over at once. While the database is away the member waits. A
failure that another server would have as well ends the member; see `failure`. One thread makes,
starts and stops a member; `status` is for any.
"""

import logging
import threading
import uuid
from collections.abc import Callable
from typing import Final

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.errors import StoreError, StoreFenced
from purgatory.service.cluster.cluster_server import ClusterServer
from purgatory.service.cluster.cluster_status import ClusterStatus, Role
from purgatory.service.cluster.heartbeat import COUNT_S, LOOK_S, Heartbeat, live_standbys
from purgatory.service.cluster.lease_watch import LeaseWatch
from purgatory.service.cluster.standby_socket import StandbySocket
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.cluster.takeover import take_over
from purgatory.service.platform import boot_ns
from purgatory.service.server.store_activity import NS_PER_S
from purgatory.service.store.lease import LeaseRow, SeenLease

log: logging.Logger = logging.getLogger(__name__)

# Seconds between two looks during a handover.
_HANDOVER_LOOK_S: Final = 0.02
# Seconds between two registrations as a standby.
_REGISTER_S: Final = 1.0
# Seconds between two attempts.
_RETRY_S: Final = 0.1


class Member:
    """One server of several over one store.

    `open_row(holder, address)` returns the row of the lease. `listen(active)` returns the bound
    listener of a standby; `active` returns the address of the active server. `make_active(lease)`
    returns the server for a lease. `address`: as clients reach this server; empty: the bound
    address. The member's thread calls `on_change` when the role or the active server has changed,
    and `on_end` last.
    """

    def __init__(
        self,
        *,
        open_row: Callable[[str, str], LeaseRow],
        listen: Callable[[Callable[[], str]], StandbySocket],
        make_active: Callable[[StoreLease], ClusterServer],
        takeover_after: float,
        address: str = "",
        partition: str = "",
        boot_ns: Callable[[], int] = boot_ns,
        on_change: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_row = open_row
        self._listen = listen
        self._make_active = make_active
        self._takeover_after = takeover_after
        self._partition = partition
        self._boot_ns = boot_ns
        self._on_change = on_change
        self._on_end = on_end
        self._thread = InterruptibleThread(target=self._run, name="service-member", daemon=True)
        self._stopping = threading.Event()
        self._handover = threading.Event()
        self._wake = threading.Event()  # while active
        self.address: str = address
        #: Why the member has ended by itself.
        self.failure: Exception | None = None
        #: None on standby.
        self.active: ClusterServer | None = None
        self._role = Role.STANDBY
        self._takeovers = 0
        self._handed_over: int | None = None  # the epoch of the last lease, if so
        self._row: LeaseRow | None = None
        self._listener: StandbySocket | None = None
        # For the page, before the first row is open.
        self._watch = LeaseWatch("", takeover_after, boot_ns=boot_ns)
        self._heartbeat: Heartbeat | None = None
        self._lease: StoreLease | None = None
        self._standbys: list[str] = []
        self._trouble = False  # whether the standby's last look has failed

    def start(self) -> None:
        """Bind, check the store, and begin. Raises ServerError, StoreError."""
        try:
            self._begin_standby().set_up()
        except BaseException:
            self._release()
            raise
        self._thread.start()

    def stop(self) -> None:
        """Hand over, and wait for the end. Idempotent."""
        self._stopping.set()
        self._wake.set()
        self._end_loading("the server was stopped while it loaded")
        if self._thread.ident is not None:
            self._thread.join()

    def _end_loading(self, why: str) -> None:
        """Abort a server that loads: it may retry for ever."""
        if self.active is not None and self._role is Role.LOADING:
            self.active.abort(StoreError(why))

    def _note_lost(self) -> None:
        self._wake.set()
        self._end_loading("the lease was lost while the server loaded")

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._live()
        except Exception as error:  # noqa: BLE001  # the process has to know
            log.critical("the server ends: %s", error)
            self.failure = error
        finally:
            self._release()
            self._on_end()

    def _live(self) -> None:
        row = self._begin_standby()
        seen = self._stand_by(row)
        if seen is None:
            return
        try:
            lease = take_over(
                row,
                seen,
                self._takeover_after,
                stopped=self._stopping.is_set,
                boot_ns=self._boot_ns,
                on_lost=self._note_lost,
            )
        except StoreError as error:
            log.warning("the takeover has failed: %s", error)
            self._watch.failed()
            self._stopping.wait(_RETRY_S)
            return
        if lease is not None:
            self._be_active(row, lease)

    def _begin_standby(self) -> LeaseRow:
        if self._listener is None:
            self._listener = self._listen(self._active_address)
            self.address = self.address or self._listener.address
        if self._row is None:
            holder = uuid.uuid4().hex[:16]
            self._row = self._open_row(holder, self.address)
            self._watch = LeaseWatch(
                holder, self._takeover_after, handed_over=self._handed_over, boot_ns=self._boot_ns
            )
        return self._row

    def _active_address(self) -> str:
        seen = self._watch.last if self._row is not None else None
        return seen.address if seen is not None and seen.holder else ""

    def _stand_by(self, row: LeaseRow) -> SeenLease | None:
        """Look until this server may take over; None: stop."""
        next_register_ns = next_count_ns = 0
        told: str | None = None  # the active address last announced
        while not self._stopping.is_set():
            now_ns = self._boot_ns()
            is_due = now_ns >= next_register_ns
            try:
                seen = row.look(register=is_due)
                if now_ns >= next_count_ns:
                    next_count_ns = now_ns + int(COUNT_S * NS_PER_S)
                    self._standbys = live_standbys(row)
            except StoreError as error:
                self._note_trouble(error)
                self._stopping.wait(_RETRY_S)
                continue
            if self._trouble:
                log.warning("the database answers again")
                self._trouble = False
            if is_due:
                next_register_ns = now_ns + int(_REGISTER_S * NS_PER_S)
            if self._watch.saw(seen):
                return seen
            if told != self._active_address():
                told = self._active_address()
                self._on_change()
            self._stopping.wait(_HANDOVER_LOOK_S if seen.handover else LOOK_S)
        return None

    def _note_trouble(self, error: StoreError) -> None:
        self._watch.failed()
        if not self._trouble:
            log.warning("the database does not answer: %s", error)
        self._trouble = True

    def _be_active(self, row: LeaseRow, lease: StoreLease) -> None:
        heartbeat = Heartbeat(row, lease, self._takeover_after, on_handover=self._request_handover)
        self._handover.clear()
        self._lease, self._heartbeat = lease, heartbeat
        self._takeovers += 1
        log.warning("this server takes over with epoch %d", lease.epoch)
        heartbeat.start()
        try:
            self._serve(lease)
        finally:
            self._end_active(row, lease, heartbeat)

    def _serve(self, lease: StoreLease) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        active = self._make_active(lease)
        active.on_end(self._wake.set)
        self.active = active
        self._change(Role.LOADING)
        if lease.lost or self._stopping.is_set():  # before the role: nothing would end the loading
            return
        try:
            active.start()
        except StoreError as error:
            if not (lease.lost or self._stopping.is_set()) and error.fatal:
                raise
            log.warning("the store could not be loaded: %s", lease.lost or error)
            self._stopping.wait(_RETRY_S)
            return
        if not lease.lost:
            self._change(Role.ACTIVE)
        while True:
            self._wake.clear()
            if self._stopping.is_set() or self._handover.is_set() or lease.lost or active.failure:
                break
            self._wake.wait()
        is_ended = lease.lost or self._stopping.is_set()  # `abort` is a failure of the server
        if active.failure and not is_ended and not isinstance(active.failure, StoreFenced):
            raise active.failure

    def _request_handover(self) -> None:
        self._handover.set()
        self._wake.set()

    def _end_active(self, row: LeaseRow, lease: StoreLease, heartbeat: Heartbeat) -> None:
        self._change(Role.CLOSING)
        active = self.active
        if active is not None:
            if lease.lost or not lease.is_valid():
                active.abort(StoreFenced(lease.lost or "the database does not confirm the lease"))
            active.close()
        heartbeat.stop()
        if lease.lost:
            log.warning("this server stands by: %s", lease.lost)
        self._release_lease(row, lease)
        self._handed_over = lease.epoch if self._handover.is_set() else None
        self.active = self._heartbeat = self._lease = None
        row.close()
        self._row = None
        self._role = Role.STANDBY

    def _release_lease(self, row: LeaseRow, lease: StoreLease) -> None:
        """Leave the row without a holder, if this server is still the holder.

        Also after a loss: the database may have lost another server's commit.
        """
        try:
            row.release(lease.read_clock())
        except StoreError as error:
            log.warning("the lease could not be released, it ends by itself: %s", error)
        lease.lose("the lease was released")

    def _change(self, role: Role) -> None:
        self._role = role
        self._on_change()

    def _release(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._row is not None:
            self._row.close()

    def status(self) -> ClusterStatus:
        """Return this server's state. Any thread."""
        lease, heartbeat, watch = self._lease, self._heartbeat, self._watch
        seen = watch.last if heartbeat is None else heartbeat.last or watch.last
        is_mine = lease is not None and heartbeat is not None
        return ClusterStatus(
            role=self._role,
            address=self.address,
            active=self.address if is_mine else self._active_address(),
            partition=self._partition,
            epoch=lease.epoch if lease is not None else (0 if seen is None else seen.epoch),
            replicated=None if seen is None else seen.replicated,
            standbys=self._standbys if heartbeat is None else heartbeat.standbys,
            takeovers=self._takeovers,
            beat_age_s=(
                watch.silent_s()
                if heartbeat is None
                else (self._boot_ns() - heartbeat.beat_ns) / NS_PER_S
            ),
            overdue_s=0.0 if lease is None or lease.lost else lease.overdue_s(),
            drift_ms=0 if seen is None else seen.drift_ms,
        )
