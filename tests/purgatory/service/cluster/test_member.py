"""Member: standby, takeover, load, active, and again; over a lease in memory."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.cluster.cluster_status import Role
from purgatory.service.cluster.member import Member
from purgatory.service.errors import ServerError
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")

TAKEOVER_S = 5.0


#: What a start raises that reads until it is aborted.
NEVER_LOADED = StoreError("stopped before the database answered", fatal=True)


class FakeActive:
    """A server that does nothing; `fails` is raised by `start`."""

    def __init__(self, lease, fails=None):
        self.lease = lease
        self.failure = None
        self.fails = fails
        self.calls = []
        self.ended = lambda: None
        self.aborted = threading.Event()

    def start(self):
        """Serve, or fail."""
        self.calls.append("start")
        if self.fails is NEVER_LOADED:
            self.aborted.wait()
        if self.fails is not None:
            raise self.fails

    def on_end(self, call):
        """See `ClusterServer`."""
        self.ended = call

    def abort(self, why):
        """End without an answer."""
        self.calls.append("abort")
        self.aborted.set()

    def close(self):
        """End."""
        self.calls.append("close")
        self.valid_at_close = self.lease.is_valid()

    def fail(self, failure):
        """End by itself."""
        self.failure = failure
        self.ended()


class Host:
    """One server: its member, and each of its servers and listeners."""

    def __init__(self, table, boot, name):
        self.servers = []
        self.listeners = []
        self.fails = []  # for the next servers
        self.roles = []
        self.ended = threading.Event()
        self.bind_fails = None
        self.member = Member(
            open_row=table.open_row,
            listen=self.listen,
            make_active=self.make_active,
            takeover_after=TAKEOVER_S,
            boot_ns=boot,
            on_change=lambda: self.roles.append(self.member.status().role),
            on_end=self.ended.set,
        )
        self.name = name

    def listen(self, active):
        """Bind; a server that serves has the address already."""
        if self.bind_fails is not None:
            raise self.bind_fails
        bound = SimpleNamespace(address=f"tcp://{self.name}:7411", closed=False)
        bound.close = lambda: setattr(bound, "closed", True)
        self.listeners.append(bound)
        return bound

    def make_active(self, lease):
        """Make the server for a lease; the listener has left the address."""
        assert self.listeners[-1].closed
        self.servers.append(FakeActive(lease, self.fails.pop() if self.fails else None))
        return self.servers[-1]

    def is_(self, role):
        """Whether the member has a role."""
        return self.member.status().role is role


@pytest.fixture
def host(table, boot):
    """Make hosts; started unless told otherwise, and stopped at the end."""
    with contextlib.ExitStack() as stack:

        def make(name, start=True, boot=boot):
            made = Host(table, boot, name)
            stack.callback(made.member.stop)
            if start:
                made.member.start()
            return made

        yield make


@pytest.fixture
def pair(host):
    """An active server, and a standby that has registered."""
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    b = host("b")
    eventually(lambda: b.member.status().active == "tcp://a:7411")
    return a, b


def test_the_first_server_becomes_active_at_once(host, table):
    """A new database has no holder. A clean stop leaves none."""
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    assert (table.row.epoch, table.row.address) == (1, "tcp://a:7411")
    assert a.listeners[0].closed
    assert a.roles == [Role.LOADING, Role.ACTIVE]
    a.member.stop()
    assert a.servers[0].calls == ["start", "close"]
    assert a.servers[0].valid_at_close
    assert table.row.holder == ""
    assert a.ended.is_set()
    assert a.member.failure is None


def test_the_status_before_the_start(host):
    """The page answers before the member has looked at the database."""
    status = host("a", start=False).member.status()
    assert (status.role, status.active, status.beat_age_s) == (Role.STANDBY, "", 0.0)


def test_a_standby_takes_over_when_the_active_server_stops(pair, table):
    """At once, without time to pass."""
    a, b = pair
    a.member.stop()
    eventually(lambda: b.is_(Role.ACTIVE))
    assert (table.row.epoch, table.row.address) == (2, "tcp://b:7411")


def test_a_standby_takes_over_from_a_silent_server(host, table, boot):
    """Which was killed: its row stays as it is."""
    table.write(epoch=5, holder="dead", address="tcp://a:7411")
    b = host("b")
    eventually(lambda: b.member.status().active == "tcp://a:7411")
    assert b.member.status().trouble == "standby of tcp://a:7411"
    boot.pass_seconds(TAKEOVER_S)
    eventually(lambda: b.is_(Role.ACTIVE))
    assert table.row.epoch == 6
    assert b.servers[0].lease.is_valid()


def test_a_fenced_server_stands_by(pair, table):
    """It is aborted, answers nothing more, and leaves the other one's lease as it is."""
    a, _ = pair
    table.write(epoch=9, holder="c", address="tcp://c:7411")
    eventually(lambda: a.is_(Role.STANDBY))
    assert a.servers[0].calls == ["start", "abort", "close"]
    assert not a.servers[0].valid_at_close
    assert table.row.holder == "c"
    eventually(lambda: a.member.status().active == "tcp://c:7411")
    assert len(a.listeners) == 2


def test_a_server_that_is_fenced_while_it_loads(host, table):
    """Its reads end, also if the database refuses them again and again."""
    a = host("a", start=False)
    a.fails.append(NEVER_LOADED)
    a.member.start()
    eventually(lambda: a.is_(Role.LOADING))
    table.write(epoch=9, holder="c", address="tcp://c:7411")
    eventually(lambda: a.is_(Role.STANDBY))
    assert a.servers[0].aborted.is_set()
    assert a.servers[0].calls[-1] == "close"
    assert a.member.failure is None
    assert table.row.holder == "c"


def test_a_server_that_is_stopped_before_it_loads(host, table):
    """It loads nothing: no later call would end its reads."""
    a = host("a", start=False)
    make, stops = a.make_active, []

    def make_active(lease):
        stop = threading.Thread(target=a.member.stop)
        stop.start()
        stops.append(stop)
        eventually(a.member._stopping.is_set)
        return make(lease)

    a.member._make_active = make_active
    a.member.start()
    eventually(lambda: stops)
    stops[0].join()
    assert a.servers[0].calls == ["close"]
    assert a.member.failure is None
    assert table.row.holder == ""


def test_a_server_that_is_stopped_while_it_loads(host, table):
    """Likewise; it leaves the lease to others."""
    a = host("a", start=False)
    a.fails.append(NEVER_LOADED)
    a.member.start()
    eventually(lambda: a.is_(Role.LOADING))
    a.member.stop()
    assert a.member.failure is None
    assert table.row.holder == ""


def test_a_server_whose_store_was_fenced_stands_by(pair, table):
    """The store may find out first."""
    a, _ = pair
    table.write(epoch=9, holder="c", address="tcp://c:7411")
    a.servers[0].lease.lose("a commit has found another epoch")
    a.servers[0].fail(StoreFenced("another epoch"))
    eventually(lambda: a.is_(Role.STANDBY))
    assert a.member.failure is None


def test_a_lease_that_is_lost_while_the_row_has_its_holder(host, table):
    """A database that has lost commits: the server loads anew, at once."""
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    a.servers[0].lease.lose("the database has lost commits")
    eventually(lambda: len(a.servers) == 2 and a.is_(Role.ACTIVE))
    assert table.row.epoch == 2


def test_a_handover(pair, table):
    """The active server answers what is in flight, and the other one goes on; then back again."""
    a, b = pair
    table.write(handover=True)
    eventually(lambda: b.is_(Role.ACTIVE))
    assert a.servers[0].calls == ["start", "close"]
    assert a.servers[0].valid_at_close
    eventually(lambda: a.is_(Role.STANDBY) and a.member.status().active == "tcp://b:7411")
    assert (table.row.epoch, table.row.handover) == (2, False)


def test_a_handover_to_a_standby_that_has_died(host, table, boot):
    """The old server takes the lease again after a while."""
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    table.write(handover=True)
    eventually(lambda: a.is_(Role.STANDBY) and a.member._row is not None)  # its time has begun
    boot.pass_seconds(60)
    eventually(lambda: a.is_(Role.ACTIVE))
    assert a.member.status().takeovers == 2


def test_while_the_database_is_away(pair, table, boot):
    """The active server stays, though its lease ends; and goes on when the database is back."""
    a, b = pair
    table.away = True
    eventually(lambda: b.member._trouble)
    boot.pass_seconds(2 * TAKEOVER_S)
    eventually(lambda: a.member.status().overdue_s > 0)
    assert "does not confirm" in a.member.status().trouble
    table.away = False
    eventually(lambda: not a.member.status().overdue_s)
    assert a.member.status().trouble == ""
    assert (len(a.servers), b.servers) == (1, [])


def test_a_stop_while_the_database_is_away(pair, table, boot):
    """The server is aborted, for its commit may hang; the lease ends by itself."""
    a, b = pair
    table.away = True
    boot.pass_seconds(TAKEOVER_S)
    a.member.stop()
    assert a.servers[0].calls == ["start", "abort", "close"]
    assert a.member.failure is None
    table.away = False
    holder = table.row.holder
    eventually(lambda: b.member.status().role is Role.STANDBY and b.member._watch.last is not None)
    assert table.row.holder == holder


def test_a_load_that_the_database_interrupts(host, table, boot):
    """The server stands by, and tries again."""
    a = host("a", start=False)
    a.fails = [StoreError("the connection was lost")]
    a.member.start()
    eventually(lambda: len(a.servers) == 2)
    eventually(lambda: a.is_(Role.ACTIVE))
    assert a.member.failure is None


@pytest.mark.parametrize(
    "fails", [StoreError("damaged", fatal=True), ServerError("too much memory")]
)
def test_a_load_that_no_server_can_do(host, table, fails):
    """The process ends, and leaves no lease behind."""
    a = host("a", start=False)
    a.fails = [fails]
    a.member.start()
    assert a.ended.wait(HANG)
    assert a.member.failure is fails
    assert table.row.holder == ""
    assert a.servers[0].calls == ["start", "close"]


def test_a_server_that_fails_later(pair, table):
    """Its process ends, and a standby takes over at once."""
    a, b = pair
    failure = StoreError("damaged", fatal=True)
    a.servers[0].fail(failure)
    assert a.ended.wait(HANG)
    assert a.member.failure is failure
    eventually(lambda: b.is_(Role.ACTIVE))


def test_a_start_without_a_database(host, table):
    """It is refused, and the address is free again."""
    table.away = True
    a = host("a", start=False)
    with pytest.raises(StoreError, match="does not answer"):
        a.member.start()
    assert a.listeners[0].closed


def test_an_address_that_another_program_has_taken(pair, table):
    """A server that cannot listen ends its process, for nobody would find it."""
    a, _ = pair
    a.bind_fails = ServerError("cannot listen")
    table.write(epoch=9, holder="c")
    assert a.ended.wait(HANG)
    assert a.member.failure is a.bind_fails


def test_the_answer_to_a_takeover_is_lost(host, table):
    """The server finds its own id in the row, and takes over once more."""
    table.lose_answer = True
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    assert table.row.epoch == 2


def test_service_time_goes_on_over_servers_and_outages(host, table, boot):
    """Whatever the boot clocks of the hosts are; also while no server ran."""
    a = host("a")
    eventually(lambda: a.is_(Role.ACTIVE))
    began_ms = a.servers[0].lease.now_ms()
    boot.pass_seconds(10)
    a.member.stop()
    boot.pass_seconds(100)
    b = host("b")
    eventually(lambda: b.is_(Role.ACTIVE))
    assert b.servers[0].lease.now_ms() == began_ms + 110_000


def test_standbys_are_known(pair, table, boot):
    """To the active server, and to themselves."""
    a, b = pair
    boot.pass_seconds(2.5)
    eventually(lambda: a.member.status().standbys == ["tcp://b:7411"])
    eventually(lambda: b.member.status().standbys == ["tcp://b:7411"])
