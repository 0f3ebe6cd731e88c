"""Drill: two servers over a database, a load, and one fault after the other."""

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psycopg

from tests.drill.books import Books
from tests.drill.clock import now
from tests.drill.faults import FAULTS, Faults, pause
from tests.drill.hosts import Host
from tests.drill.job_entry import Moment
from tests.drill.load import Load
from tests.drill.observers import Observers
from tests.postgres.cluster import PostgresCluster

#: Where the servers' logs are left.
LOGS = Path("build/drill")
#: libzmq ends a server whose client goes away at a bad moment (its issue 4841): counted, and shown.
KNOWN_ABORT = "Assertion failed: !_io_error"
#: Seconds within which the servers have to serve again after any fault.
HANG = 180.0


class Drill:
    """Everything that takes part. `with` starts and ends it.

    `standby`: of the database: None, "synchronous" or "asynchronous". `handicap`: defences that the
    servers lack.
    """

    def __init__(
        self,
        seed: int,
        *,
        standby: str | None = None,
        takeover_after: float = 2.0,
        handicap: tuple[str, ...] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.seed = seed
        self.say = say
        self.directory = Path(tempfile.mkdtemp(prefix="purgatory-drill-"))
        self.cluster = PostgresCluster(standby=standby)
        self._takeover_after, self._handicap = takeover_after, handicap
        self.hosts: list[Host] = []
        self.books = Books()
        #: How often each server was ended by a fault of libzmq, see KNOWN_ABORT.
        self.aborts: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        #: Seconds from a moment to the first answer to what was asked after it, by kind.
        self.times: defaultdict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> Self:
        self.cluster.start()
        for name in ("a", "b"):
            host = Host(
                name,
                self.directory,
                self.cluster,
                takeover_after=self._takeover_after,
                handicap=self._handicap,
            )
            self.hosts.append(host)
            host.start()
            self.wait_until(lambda host=host: host.is_up)
        #: The addresses of both, as clients take them.
        self.address = ",".join(host.address for host in self.hosts)
        self.load = Load(self.address, self.books, self.seed)
        self.observers = Observers(self.books, [host.address for host in self.hosts], self.seed)
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.close()
        self.cluster.close()
        for host in self.hosts:
            LOGS.mkdir(parents=True, exist_ok=True)
            shutil.copy(host.log_path, LOGS / host.log_path.name)
        shutil.rmtree(self.directory)

    def run(self, count: int, faults: Faults) -> None:
        """Have so many faults happen under load, and check the books."""
        self.load.start()
        self.observers.start()
        try:
            self.wait_until_served(now())
            for number in range(1, count + 1):
                pause(0.5)
                began_at = now()
                name = faults.one(self)
                self.books.moments.append(Moment(began_at, f"{name} begins, or was tried"))
                self.books.moments.append(Moment(now(), f"{name} is over"))
                self.wait_until_served(now())
                self._check_hosts()
                self.say(f"{number:4} {name:20} {now() - began_at:6.2f} s")
                assert not self.load.failures, self.load.failures
            self.load.stop()
        finally:
            self.observers.stop()
            self.load.close()
        self.books.check()

    def _check_hosts(self) -> None:
        """No fault ends a server that is not told to end; one that starts is waited for."""
        for host in self.hosts:
            self.wait_until(lambda host=host: host.is_up or not host.is_running)
            if not host.is_running and host.count_in_log(KNOWN_ABORT) > self.aborts[host.name]:
                self.aborts[host.name] += 1
                host.start()
                self.wait_until(lambda host=host: host.is_up)
            assert host.is_running, f"{host.name} has ended:\n{host.log()}"

    def _has_holder(self) -> bool:
        try:
            return self._holder_address() != ""
        except psycopg.Error:  # its tables are not there yet
            return False

    def _holder_address(self) -> str:
        rows = self.cluster.primary.execute(
            "SELECT address FROM purgatory.lease WHERE holder <> ''"
        )
        return rows[0][0] if rows else ""

    def active(self) -> Host:
        """Return the host that has the lease, once there is one."""
        self.wait_until(self._has_holder)
        address = self._holder_address()
        (host,) = [host for host in self.hosts if host.address == address]
        return host

    def standby(self) -> Host:
        """Return the other host."""
        active = self.active()
        (host,) = [host for host in self.hosts if host is not active]
        return host

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition is true."""
        deadline = now() + HANG
        while not condition():
            if now() > deadline:
                raise AssertionError(f"{condition} never became true:\n{self.logs()}")
            pause(0.01)

    def wait_until_served(self, moment: float) -> float:
        """Return after how many seconds something was acknowledged that was sent after `moment`."""
        self.wait_until(lambda: self.books.first_ack_after(moment) is not None)
        return self.books.first_ack_after(moment) - moment

    def measure(self, what: str, moment: float) -> None:
        """Wait until something sent after `moment` is acknowledged, and note how long that took."""
        self.times[what].append(self.wait_until_served(moment))

    def measure_gap(self, what: str, moment: float) -> None:
        """Note the longest time without an acknowledgement since `moment`: old and new serve."""
        self.wait_until_served(now())
        self.times[what].append(self.books.longest_gap_after(moment))

    def logs(self) -> str:
        """Return the ends of the servers' logs."""
        return "\n".join(f"--- {host.name}\n{host.log()}" for host in self.hosts)

    @property
    def possible_faults(self) -> set[str]:
        """The names of the faults that can happen here."""
        names = {fault.__name__ for fault in FAULTS}
        return names if self.cluster.standby is not None else names - {"fail_over_database"}

    @property
    def doubts(self) -> int:
        """How many commits were in doubt."""
        in_doubt = "it is unknown whether a commit succeeded"
        return sum(host.count_in_log(in_doubt) for host in self.hosts)
