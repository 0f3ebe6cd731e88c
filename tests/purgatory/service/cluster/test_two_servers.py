"""Two servers over one PostgreSQL, in processes of their own: each way in which one may end."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import pytest

from purgatory import OperationExpired
from purgatory.service import Client, StoreFailed
from purgatory.service.encoding import decode_answer
from purgatory.service.protocol import (
    Jobs,
    Ping,
    Query,
    Stats,
    Submission,
    SubmissionOptions,
    Submit,
    Work,
)
from tests.testing.cluster_processes import ClusterProcess, wait_for_exit
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.servers import peer

__all__ = ["peer"]

psycopg = pytest.importorskip("psycopg")

TAKEOVER_S = 2.0


@pytest.fixture
def serve(tmp_path):
    """Make servers over a database, killed at the end."""
    with contextlib.ExitStack() as stack:

        def make(url, *flags, **others):
            server = ClusterProcess(tmp_path / "none", url, *flags, **others)
            return stack.enter_context(server)

        yield make


@pytest.fixture
def pair(serve, postgres):
    """An active server and a standby."""
    a = serve(postgres.url)
    a.wait_until_active()
    b = serve(postgres.url)
    eventually(lambda: b.cluster().get("active") == a.address)
    return a, b


def submit(server, count=1, timeout=600.0):
    """Submit operations, acknowledged; they wait for the keys `k0`, `k1` and so on."""
    with Client(server.address, timeout=HANG, name="shop") as client:
        for n in range(count):
            client.defer(f"k{n}", timeout=timeout, op_id=f"op{n}")
        client.flush()


def pending(server):
    """Return how many operations wait."""
    with Client(server.address, timeout=HANG, name="shop") as client:
        return client.stats()["pending"]


def store(command, postgres):
    """Run `purgatory store`; returns exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "purgatory", "store", command, "--store", postgres.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_active_server_is_killed(pair):
    """The standby takes over within `takeover_after` and a moment; nothing is lost."""
    a, b = pair
    submit(a, 100)
    a.kill()
    b.wait_until_active()
    assert pending(b) == 100
    with Client(b.address, timeout=HANG, name="shop") as client:
        assert client.complete("k7") == 1
    a.start()
    eventually(lambda: a.cluster().get("active") == b.address)
    assert a.get("readyz") == (503, f"standby of {b.address}\n")
    assert a.get("healthz") == (200, "ok\n")


def test_a_clean_end(pair):
    """SIGTERM hands over at once: the standby does not wait for `takeover_after`."""
    a, b = pair
    submit(a)
    assert a.end() == (0, "") or a.process.returncode == 0
    assert b.wait_until_active() < HANG
    assert pending(b) == 1
    assert b.cluster()["epoch"] == 2
    assert b.end()[0] == 0


def test_a_handover(pair, postgres):
    """And back; then without a standby it is refused."""
    a, b = pair
    submit(a)
    for old, new in ((a, b), (b, a)):
        code, text = store("handover", postgres)
        assert code == 0
        assert text.startswith(f"{new.address} is active")
        new.wait_until_active()
        assert pending(new) == 1
        eventually(lambda old=old, new=new: old.cluster().get("active") == new.address)
    code, text = store("status", postgres)
    assert code == 0
    assert a.address in text
    assert b.address in text
    b.kill()
    eventually(lambda: store("handover", postgres)[0] == 1)
    assert a.is_active()


class QuietPeer:
    """A client that has asked before its server is frozen, and gives it nothing to commit."""

    def __init__(self, peer, server):
        self.client = peer(server)
        self.client.hello("quiet")

    def ask_while_frozen(self):
        """Send reads and ask for work: the server finds these when it wakes up."""
        self.client.send(Stats(50))
        self.client.send(Query(51, ["op0"]))
        self.client.send(Work(52, {"mail": 3}, 10, 60_000))

    def answers(self, seconds=1.0):
        """Return the messages of the next seconds."""
        found = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.client.socket.poll(50):
                message = decode_answer(self.client.socket.recv())
                if not isinstance(message, Ping):
                    found.append(message)
        return found


def frozen_and_woken(pair, peer):
    """Freeze the active server until the other one serves; returns what it says on waking up."""
    a, b = pair
    quiet = QuietPeer(peer, a)
    options = SubmissionOptions(due_ms=int(time.time() * 1000) - 1)
    quiet.client.ask(Submit(1, [Submission("job", ("none",), 0, 0, "mail", options=options)]))
    quiet.client.ask(Submit(2, [Submission("op0", ("k0",), 600_000)]))
    # The job is due, and that is on disk: on waking up there is nothing to commit.
    eventually(lambda: quiet.client.ask(Stats(3)).stats["jobs_waiting"] == 1)
    a.freeze()
    quiet.ask_while_frozen()
    b.wait_until_active()
    a.thaw()
    return quiet.answers()


def test_an_active_server_that_was_frozen(pair, peer):
    """It says nothing of what it has in memory, leases no job, and stands by in its turn."""
    a, b = pair
    assert [one for one in frozen_and_woken(pair, peer) if not is_standby(one)] == []
    eventually(lambda: a.cluster().get("active") == b.address)
    assert a.process.poll() is None


def is_standby(message):
    """Whether a message is the answer of a standby."""
    return getattr(message, "code", "") == "standby"


# The thread that finds out that the lease is lost comes late, so that it decides nothing.
NO_GUARD = """
import time
from purgatory.service.cluster.store_lease import StoreLease
StoreLease.is_valid = lambda lease: True
lose = StoreLease.lose
StoreLease.lose = lambda lease, why: (time.sleep(1), lose(lease, why))
"""


def test_without_the_guard_it_would_speak(serve, postgres, peer):
    """So the test before finds a missing guard: nothing else keeps the server silent."""
    a = serve(postgres.url, patch=NO_GUARD)
    a.wait_until_active()
    b = serve(postgres.url)
    eventually(lambda: b.cluster().get("active") == a.address)
    said = frozen_and_woken((a, b), peer)
    assert any(isinstance(one, Jobs) or one.seq in (50, 51) for one in said)


def shifted(seconds):
    """Return a patch that sets the wall clock of a process."""
    return f"""
import time
real_ns, real = time.time_ns, time.time
time.time_ns = lambda: real_ns() + {seconds} * 10**9
time.time = lambda: real() + {seconds}
"""


@pytest.mark.parametrize("seconds", [600, -600])
def test_hosts_whose_clocks_differ(serve, postgres, seconds):
    """Nothing is early, and no time goes back: over a takeover, and while no server ran."""
    a = serve(postgres.url)
    a.wait_until_active()
    submit(a, timeout=300.0)
    deadline_ms, before_ms = deadline_of(a), now_ms(a)
    b = serve(postgres.url, patch=shifted(seconds))
    eventually(lambda: b.cluster().get("active") == a.address)
    a.kill()
    b.wait_until_active()
    assert deadline_of(b) == deadline_ms
    between_ms = now_ms(b)
    assert before_ms <= between_ms < deadline_ms
    b.kill()
    a.start()
    a.wait_until_active()
    assert deadline_of(a) == deadline_ms
    assert between_ms <= now_ms(a) < deadline_ms
    assert abs(a.cluster()["drift_ms"]) < 1000


def deadline_of(server):
    """Return the deadline of the operation."""
    with Client(server.address, timeout=HANG, name="shop") as client:
        found = client.query("op0")
    assert found.state == "pending"
    return found.deadline_ms


def now_ms(server):
    """Return the service time."""
    return json.loads(server.get("state.json")[1])["now_ms"]


def test_a_server_that_was_frozen_for_a_moment(pair):
    """Shorter than `takeover_after`: it goes on, and no other one has taken over."""
    a, b = pair
    a.freeze()
    threading.Event().wait(TAKEOVER_S / 4)
    a.thaw()
    submit(a)
    assert pending(a) == 1
    assert b.cluster()["role"] == "standby"
    assert a.cluster()["epoch"] == 1


def test_both_servers_and_the_database_are_killed(serve, postgres_cluster):
    """When all are back, nothing is lost, and the deadlines are the same."""
    url = postgres_cluster.url
    a, b = serve(url), serve(url)
    active = a if a.cluster()["role"] == "active" else b
    eventually(lambda: a.is_active() or b.is_active())
    active = a if a.is_active() else b
    submit(active, 50)
    with Client(active.address, timeout=HANG, name="shop") as client:
        deadline_ms = client.query("op0").deadline_ms
    a.kill()
    b.kill()
    postgres_cluster.kill()
    postgres_cluster.start()
    a.start()
    b.start()
    eventually(lambda: a.is_active() or b.is_active())
    active = a if a.is_active() else b
    assert pending(active) == 50
    with Client(active.address, timeout=HANG, name="shop") as client:
        assert client.query("op0").deadline_ms == deadline_ms


def test_the_database_restarts(serve, postgres_cluster):
    """The same server goes on soon after, and no takeover was needed."""
    url = postgres_cluster.url
    a = serve(url)
    a.wait_until_active()
    b = serve(url)
    eventually(lambda: b.cluster().get("active") == a.address)
    submit(a, 10)
    postgres_cluster.stop("immediate")
    eventually(lambda: not a.is_active())
    assert a.get("healthz")[0] == 200
    postgres_cluster.start()
    eventually(lambda: a.is_active() or b.is_active())
    assert a.is_active()
    assert a.cluster()["epoch"] <= 2  # a commit in doubt may have raised it
    assert pending(a) == 10
    assert b.cluster()["role"] == "standby"


def test_events_while_the_database_is_away(serve, postgres_cluster):
    """high-availability.md: the first counts as of its arrival, a later one not before the end."""
    a = serve(postgres_cluster.url)
    a.wait_until_active()
    with Client(a.address, timeout=HANG, name="shop") as client:
        waits = [client.defer(key, timeout=3) for key in ("first", "later")]
        client.flush()
        postgres_cluster.stop("immediate")
        first = client.complete_later("first")
        eventually(lambda: not a.is_active())
        later = client.complete_later("later")
        eventually(lambda: a.cluster()["overdue_s"] > 2.5)  # both deadlines have passed
        postgres_cluster.start()
        assert (first.result(HANG), later.result(HANG)) == (1, 0)
        assert [type(one.exception(HANG)) for one in waits] == [type(None), OperationExpired]


def test_a_group_that_was_half_sent_holds_the_lease(pair, postgres):
    """Of a host that went away: the standby ends its session, and takes over."""
    a, b = pair
    submit(a)
    rows = postgres.execute("SELECT epoch, holder FROM purgatory.lease")
    epoch, holder = rows[0]
    a.freeze()
    name = f"purgatory:purgatory:{epoch}:{holder}"
    with psycopg.connect(postgres.url, application_name=name) as held:
        held.execute("UPDATE purgatory.lease SET commits = commits + 1")
        b.wait_until_active()
        assert b.cluster()["epoch"] == epoch + 1
        assert pending(b) == 1
        with pytest.raises(psycopg.OperationalError):
            held.commit()


def test_an_earlier_server_over_migrated_tables(pair, postgres):
    """high-availability.md: it ends when it takes over, and leaves the lease to others."""
    a, b = pair
    postgres.execute("UPDATE purgatory.purgatory_version SET version = 99")
    a.kill()
    assert wait_for_exit(b) == 2
    assert postgres.execute("SELECT holder, epoch FROM purgatory.lease") == [("", 2)]


def test_two_partitions(serve, postgres):
    """Each has an active server and data of its own."""
    orders = serve(postgres.url, "--partition", "orders")
    mails = serve(postgres.url, "--partition", "mails")
    orders.wait_until_active()
    mails.wait_until_active()
    submit(orders, 3)
    assert (pending(orders), pending(mails)) == (3, 0)
    with Client(mails.address, timeout=HANG, name="shop") as client:
        assert client.complete("k0") == 0
    assert orders.cluster()["partition"] == "orders"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://postgres@127.0.0.1:1/none", "127.0.0.1"),
        ("postgresql://postgres@{host}/no_such_database", "no_such_database"),
    ],
)
def test_a_start_without_a_database(serve, postgres, url, words, tmp_path):
    """One line, and exit code 2."""
    host = postgres.url.partition("@")[2].partition("/")[0]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "purgatory", "serve", "--store", url.format(host=host)),
            *("--bind", "tcp://127.0.0.1:*", "--http-bind", "", "--no-journal"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_required_replica(serve, postgres, synchronous_cluster):
    """Without one nothing is accepted, and the server is not ready; with one it works."""
    a = serve(postgres.url, "--require-replicated")
    eventually(lambda: "no synchronous standby" in a.get("readyz")[1])
    with Client(a.address, timeout=HANG) as client, pytest.raises(StoreFailed):
        client.defer("k", timeout=60).result(HANG)
    b = serve(synchronous_cluster.url, "--require-replicated")
    b.wait_until_active()
    submit(b)
    assert b.cluster()["replicated"]
