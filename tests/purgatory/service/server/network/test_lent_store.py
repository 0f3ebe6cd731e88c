"""Which thread runs the transactions: the network thread a few, the store thread many."""

import contextlib
import random
import sqlite3
import threading

import pytest

from purgatory import OperationExpired
from purgatory.service import Unavailable
from purgatory.service.encoding import encode
from purgatory.service.protocol import Query, Stats, Submit, Submitted
from purgatory.service.server.commands import RunTransaction, StopStoreLoop
from purgatory.service.server.network import lent_store
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.commits import commits
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import operation

HANG_MS = int(1000 * HANG)
NETWORK, STORE = "service-network", "service-store"


class WatchedDisk:
    """Records which thread commits; commits wait while it hangs."""

    def __init__(self):
        self.threads = []
        self.works = threading.Event()
        self.works.set()
        self.hangs = threading.Event()  # set when a commit waits

    def open(self, path):
        """Open a store on it."""
        return SqliteStore(path, connect=self._connect)

    def _connect(self, *args, **kwargs):
        return sqlite3.connect(*args, factory=self._factory(), **kwargs)

    def _factory(disk):
        class Watched(sqlite3.Connection):
            def execute(self, sql, *args):
                if commits(self, sql):
                    disk.threads.append(threading.current_thread().name)
                    if not disk.works.is_set():
                        disk.hangs.set()
                        assert disk.works.wait(HANG)
                return super().execute(sql, *args)

        return Watched


@pytest.fixture
def disk():
    made = WatchedDisk()
    yield made
    made.works.set()


@pytest.fixture
def server(serve, disk):
    """A server on a disk that is watched."""
    return serve({"open_store": disk.open})


def test_one_request_alone(server, disk, connect, monkeypatch):
    """The network thread commits what comes alone, and expires what is due."""
    monkeypatch.setattr(lent_store, "SLOW_COMMIT_S", HANG)  # a busy machine may make commits slow,
    monkeypatch.setattr(lent_store, "CROWDED_S", 0.0)  # and let two requests come together
    client = connect(server)
    client.stats()
    disk.threads.clear()
    for n in range(20):
        client.defer(f"k{n}", timeout=HANG)
        client.flush()
    with pytest.raises(OperationExpired):
        client.defer("short", timeout=0.01).result(HANG)
    assert client.complete("k1") == 1
    assert set(disk.threads) == {NETWORK}
    assert len(disk.threads) >= 23


def test_a_client_that_asks_again_at_once(server, disk, connect, monkeypatch):
    """It is no crowd: the store thread, which takes longer, has no part in it."""
    monkeypatch.setattr(lent_store, "SLOW_COMMIT_S", HANG)
    client = connect(server)
    client.stats()
    disk.threads.clear()
    for n in range(50):
        client.submit(f"k{n}", timeout=HANG)
    assert len(disk.threads) >= 50
    assert disk.threads.count(STORE) <= 2  # it had the store at the start


def test_many_requests(server, disk, peer):
    """The store thread commits them; one that comes alone later is the network thread's again."""
    one = peer(server)
    one.hello()
    one.ask(Query(1, ["sync"]))
    disk.threads.clear()
    assert isinstance(
        one.ask(Submit(2, [operation(f"a{n}", timeout_ms=HANG_MS) for n in range(500)])), Submitted
    )
    assert disk.threads == [STORE]
    seq = 3  # the store thread may not have released the store yet
    while disk.threads[-1] == STORE:
        seq += 1
        assert isinstance(
            one.ask(Submit(seq, [operation(f"b{seq}", timeout_ms=HANG_MS)])), Submitted
        )
    assert disk.threads[-1] == NETWORK


def test_after_a_slow_commit(server, disk, connect, monkeypatch):
    """The store thread waits for the next one, if a client asks or something is due."""
    monkeypatch.setattr(lent_store, "SLOW_COMMIT_S", -1.0)
    client = connect(server)
    short = client.defer("short", timeout=0.2)
    client.flush()  # the first commit, slow as each is: what is due next is the store thread's
    disk.threads.clear()
    with pytest.raises(OperationExpired):
        short.result(HANG)
    client.defer("k")
    client.flush()
    assert set(disk.threads) == {STORE}


def test_the_network_goes_on_while_the_disk_hangs(server, disk, peer, monkeypatch):
    """After a slow commit, or with much to do, only the store thread waits for the disk."""
    monkeypatch.setattr(lent_store, "SLOW_COMMIT_S", -1.0)
    one, two = peer(server), peer(server)
    one.hello("one")
    disk.works.clear()
    one.send(Submit(2, [operation("a", timeout_ms=HANG_MS)]))
    assert disk.hangs.wait(HANG)
    assert two.ask(Stats(1)).code == "hello"
    assert one.ask(encode([99, 1])).code == "malformed"
    disk.works.set()
    assert isinstance(one.receive(), Submitted)


@pytest.mark.parametrize("slow", [-1.0, 10.0], ids=["store thread", "network thread"])
def test_close_while_the_disk_hangs(server, disk, connect, monkeypatch, caplog, slow):
    """It returns in time, whichever thread waits, and leaves all as it is until the end."""
    monkeypatch.setattr(lent_store, "SLOW_COMMIT_S", slow)
    client = connect(server)
    client.stats()
    disk.works.clear()
    future = client.defer("k")
    assert disk.hangs.wait(HANG)
    server.close(0.1)
    assert "the disk hangs" in caplog.text
    disk.works.set()
    server.close(HANG)
    assert server.wait(HANG)
    assert not {NETWORK, STORE} & {thread.name for thread in threading.enumerate()}
    client.close(0)
    with contextlib.suppress(Unavailable):
        assert future.result(0)


@pytest.mark.parametrize("seed", range(3))
def test_the_store_goes_back_and_forth(server, disk, peer, monkeypatch, seed):
    """However few and many requests alternate, each is answered once, and in order."""
    monkeypatch.setattr(lent_store, "MAX_OWN_COMMANDS", 2)
    dice = random.Random(seed)
    peers = [peer(server) for _ in range(3)]
    for n, one in enumerate(peers):
        one.hello(f"peer {n}")
        one.ask(Submit(10**6, [operation(f"alone {n}", timeout_ms=10**8)]))
    asked = {one: [] for one in peers}
    for seq in range(300):
        one = dice.choice(peers)
        count = dice.choice((1, 1, 1, 200))
        one.send(Submit(seq, [operation(f"{seq}-{i}", timeout_ms=10**8) for i in range(count)]))
        asked[one].append(seq)
        if dice.random() < 0.2:
            for other in peers:
                while asked[other]:
                    assert other.receive() == Submitted(asked[other].pop(0))
    for one in peers:
        assert [one.receive() for _ in asked[one]] == [Submitted(seq) for seq in asked[one]]
    assert {NETWORK, STORE} <= set(disk.threads)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_stop_sends_the_commands_before(step_server, count):
    """The store loop ends after the last of them."""
    mailbox = step_server.store_loop.mailbox
    store = lent_store.LentStore(step_server.store_loop, None)
    for _ in range(count):
        store.take(RunTransaction())
    store.stop()
    sent = [mailbox.recv(0) for _ in range(mailbox.depth)]
    assert list(map(type, sent)) == [RunTransaction] * count + [StopStoreLoop]
    assert store.with_store_thread == StoreLoop.START_COMMANDS + len(sent)
