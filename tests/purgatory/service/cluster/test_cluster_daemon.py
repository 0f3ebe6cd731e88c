"""ClusterDaemon: two servers in this process over one lease and one file."""

import contextlib
import json
import threading
import urllib.error
import urllib.request

import pytest

from purgatory.errors import StoreError
from purgatory.service import Client, Config, ServerError
from purgatory.service.auth.key_store import SERVER, KeyStore
from purgatory.service.cluster.cluster_daemon import ClusterDaemon, SharedDatabase
from purgatory.service.cluster.cluster_status import Role
from purgatory.service.errors import KeysError
from purgatory.service.platform import boot_ns
from purgatory.service.protocol import VERSION, Failure, Hello, Ping, Query, Submission, Submit
from tests.testing.eventually import eventually
from tests.testing.fake_lease import FakeDatabase, FakeLeaseTable
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.servers import no_thread_is_left, peer

__all__ = ["no_thread_is_left", "peer"]

pytestmark = pytest.mark.usefixtures("no_thread_is_left")

URL = "postgresql://nowhere/purgatory"


@pytest.fixture
def shared():
    """A database by the real clock: the members' boot clocks run."""
    return FakeLeaseTable(boot_ns)


@pytest.fixture
def serve(shared, tmp_path):
    """Make servers over one database, closed at the end."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            usual = {"bind": "tcp://127.0.0.1:*", "http_bind": "127.0.0.1:0", "journal": False}
            config = Config(**{"store": URL, "data_dir": tmp_path / "none"} | usual | settings)
            said = []
            daemon = ClusterDaemon(
                config,
                lambda text, _: said.append(text),
                database=FakeDatabase(tmp_path / "shared.db", shared),
            )
            daemon.said = said
            return stack.enter_context(daemon)

        yield make


def test_how_far_the_loading_is(shared, tmp_path):
    """The server that becomes active tells it; one that stands by or serves tells nothing."""
    told = []

    class Watched(FakeDatabase):
        def open_store(self, lease):
            told.append(daemon.start_progress())
            return super().open_store(lease)

    config = Config(
        store=URL,
        data_dir=tmp_path / "none",
        bind="tcp://127.0.0.1:*",
        http_bind="",
        journal=False,
    )
    daemon = ClusterDaemon(config, database=Watched(tmp_path / "shared.db", shared))
    assert daemon.start_progress() == "looking at the database"
    with daemon:
        eventually(lambda: is_(daemon, Role.ACTIVE))
        assert told == ["opening the database"]
        assert daemon.start_progress() == ""
        database = FakeDatabase(tmp_path / "shared.db", shared)
        with ClusterDaemon(config, database=database) as standby:
            eventually(lambda: daemon.status().standbys)
            assert standby.start_progress() == ""


def test_a_server_that_is_stopped_while_it_opens_the_store(shared, tmp_path):
    """The store is stopped when it is open: its reads wait for no database. That is no failure."""
    opening, stopped = threading.Event(), []

    class Slow(FakeDatabase):
        def open_store(self, lease):
            opening.set()
            eventually(lambda: daemon.member.active.failure is not None)
            store = super().open_store(lease)
            store.stop = lambda: stopped.append(store)
            return store

    config = Config(
        store=URL,
        data_dir=tmp_path / "none",
        bind="tcp://127.0.0.1:*",
        http_bind="",
        journal=False,
    )
    daemon = ClusterDaemon(config, database=Slow(tmp_path / "shared.db", shared))
    with daemon:
        assert opening.wait(HANG)
    assert len(stopped) == 1
    assert daemon.failure is None


def is_(daemon, role):
    """Whether a server has a role."""
    return daemon.status().role is role


def read(daemon, path):
    """Return status and text of an answer."""
    try:
        with urllib.request.urlopen(daemon.url + path, timeout=HANG) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def pair(serve):
    """An active server and a standby."""
    a = serve()
    eventually(lambda: is_(a, Role.ACTIVE))
    b = serve()
    eventually(lambda: b.status().active == a.member.address)
    return a, b


def test_an_active_server_and_a_standby(pair, peer):
    """Both are well; the standby is not ready, and says where to go: by HTTP and to clients."""
    a, b = pair
    where = a.member.address
    assert read(a, "healthz") == read(b, "healthz") == (200, "ok\n")
    assert read(a, "readyz") == (200, "ok\n")
    assert read(b, "readyz") == (503, f"standby of {where}\n")
    assert peer(b.member).ask(Hello(1, VERSION, "c")) == Failure(
        1, "standby", f"standby of {where}"
    )
    eventually(lambda: a.said == [f"serving at {where}, 0 waiting"])
    eventually(lambda: b.said == [f"standby of {where}, at {b.member.address}"])
    with Client(where, timeout=HANG) as client:
        client.defer("k", timeout=60)
        client.flush()
        assert client.stats()["pending"] == 1


def test_the_page(pair):
    """It shows what each server is, and the figures of the active one."""
    a, b = pair
    for daemon, role in ((a, "active"), (b, "standby")):
        state = json.loads(read(daemon, "state.json")[1])
        assert state["cluster"]["role"] == role
        assert state["cluster"]["active"] == a.member.address
        assert state["cluster"]["epoch"] == 1
        assert bool(state["service"]) == (role == "active")
        eventually(lambda daemon=daemon: json.loads(read(daemon, "history.json")[1])["rows"])
        assert len(json.loads(read(daemon, "history.json")[1])["rows"][-1]) == 8
    assert json.loads(read(b, "state.json")[1])["health"]["not_ready"].startswith("standby of")


def test_the_metrics(pair):
    """Of the cluster on both, of the server on the active one."""
    a, b = pair
    active, standby = read(a, "metrics")[1], read(b, "metrics")[1]
    assert "purgatory_cluster_is_active 1.0" in active
    assert "purgatory_cluster_is_active 0.0" in standby
    assert "purgatory_cluster_epoch 1.0" in standby
    assert "purgatory_cluster_takeovers_total 1.0" in active
    assert "purgatory_server_ready 1.0" in active
    assert "purgatory_server_ready" not in standby
    for text in (active, standby):
        assert text.count("purgatory_build_info{") == 1


def test_what_waits_goes_on_at_the_other_server(pair):
    """After a clean stop of the active one, at once; the operation keeps its deadline."""
    a, b = pair
    with Client(a.member.address, timeout=HANG, name="c") as client:
        client.defer("k", timeout=600, op_id="waits")
        client.flush()
        deadline_ms = client.query("waits").deadline_ms
    a.close()
    eventually(lambda: b.said[-1] == f"serving at {b.member.address}, 1 waiting")
    with Client(b.member.address, timeout=HANG, name="c") as client:
        assert client.query("waits").deadline_ms == deadline_ms
        assert client.complete("k") == 1


def test_a_fenced_server_stands_by_at_the_same_address(pair, shared, peer):
    """It answers nothing more as the active one, and then says where to go."""
    a, _ = pair
    shared.write(epoch=9, holder="c", address="tcp://c:7411")
    eventually(lambda: is_(a, Role.STANDBY) and a.status().active)
    assert peer(a.member).ask(Hello(1, VERSION, "c")).message == "standby of tcp://c:7411"
    assert read(a, "readyz") == (503, "standby of tcp://c:7411\n")
    assert read(a, "healthz") == (200, "ok\n")
    assert a.failure is None


def test_a_commit_that_finds_another_epoch(pair, shared, peer):
    """The server answers nothing, and stands by."""
    a, _ = pair
    client = peer(a.member)
    client.hello()
    shared.write(epoch=9, holder="c", address="tcp://c:7411")
    client.send(Submit(2, [Submission("id", ("k",), 60_000)]))
    eventually(lambda: is_(a, Role.STANDBY))
    while client.socket.poll(100):
        assert isinstance(client.receive(), Ping)


def test_a_handover(pair, shared):
    """The servers change places; what waits is there."""
    a, b = pair
    with Client(a.member.address, timeout=HANG) as client:
        client.defer("k", timeout=60)
        client.flush()
    shared.write(handover=True)
    eventually(lambda: is_(b, Role.ACTIVE))
    eventually(lambda: a.status().active == b.member.address)
    assert read(a, "readyz")[0] == 503
    shared.write(handover=True)
    eventually(lambda: a.said[-1] == f"serving at {a.member.address}, 1 waiting")


def test_while_the_database_is_away(serve, shared):
    """Nothing is answered, a server that is restarted meanwhile does not start, and it goes on."""
    a = serve(takeover_after=0.5)
    eventually(lambda: is_(a, Role.ACTIVE))
    with Client(a.member.address, timeout=HANG) as client:
        client.stats()
        shared.away = True
        eventually(lambda: a.status().overdue_s > 0)
        assert "does not confirm" in read(a, "readyz")[1]
        assert read(a, "healthz")[0] == 200
        later = client.complete_later("other")
        with pytest.raises(TimeoutError):
            later.result(0.3)
        shared.away = False
        assert later.result(HANG) == 0
    assert read(a, "readyz") == (200, "ok\n")


def test_a_required_replica(serve, shared, monkeypatch):
    """Without one the server is not ready, and says why, also while it loads."""
    a = serve(require_replicated=True)
    eventually(lambda: is_(a, Role.ACTIVE))
    assert "no synchronous standby" in read(a, "readyz")[1]
    with monkeypatch.context() as patched:
        patched.setattr(a.member, "_role", Role.LOADING)
        assert "no synchronous standby" in read(a, "readyz")[1]
    shared.write(replicated=True)
    eventually(lambda: read(a, "readyz")[0] == 200)


def test_an_address_in_use(pair, serve):
    """A server that cannot listen does not start, and leaves nothing behind."""
    a, _ = pair
    with pytest.raises(ServerError, match="cannot listen at"):
        serve(bind=a.member.address)


def test_the_journal_has_its_directory_alone(serve, tmp_path):
    """Servers with one data directory write their journals beside each other, by address."""
    port = free_port()
    settings = {"journal": True, "data_dir": tmp_path / "a"}
    serve(bind=f"tcp://127.0.0.1:{port}", **settings)
    serve(advertise="tcp://b:7411", **settings)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {f"127.0.0.1_{port}", "b_7411"}
    with pytest.raises(ServerError, match="another server has its data there"):
        serve(advertise="tcp://b:7411", **settings)


def test_reload(pair):
    """Without keys there is nothing to read."""
    for daemon in pair:
        daemon.reload()


def test_a_server_with_another_key_does_not_start(serve, tmp_path):
    """With the same key it does."""
    for name in ("a", "b"):
        KeyStore(tmp_path / name).new(SERVER)
    first = serve(keys_dir=tmp_path / "a")
    eventually(lambda: is_(first, Role.ACTIVE))
    with pytest.raises(KeysError, match="expected the same"):
        serve(keys_dir=tmp_path / "b")
    second = serve(keys_dir=tmp_path / "a")
    eventually(lambda: second.status().active == first.member.address)


def test_the_database_is_postgresql_by_default(tmp_path):
    """The settings name it."""
    daemon = ClusterDaemon(Config(store=URL, data_dir=tmp_path, bind="tcp://127.0.0.1:*"))
    assert isinstance(daemon._database, SharedDatabase)


def test_a_client_that_does_not_read(pair, shared, peer, monkeypatch):
    """The handover does not wait for it longer than a moment."""
    a, b = pair
    client = peer(a.member, RCVHWM=1, RCVBUF=4096)
    client.hello()
    for n in range(2000):  # answers of about 1 KB each
        client.send(Query(n + 2, ["x" * 1000]))
    eventually(lambda: a.member.active.assembly.server.stats().messages > 1000)
    shared.write(handover=True)
    eventually(lambda: is_(b, Role.ACTIVE))
    assert is_(a, Role.STANDBY)


def test_a_commit_that_hangs_while_the_server_hands_over(pair, shared, peer, monkeypatch):
    """It is told to give up, and the server stands by."""
    a, b = pair
    hangs, store = threading.Event(), a.member.active._store
    monkeypatch.setattr(store, "stop", hangs.set)

    def commit(changes):
        assert hangs.wait(HANG)
        raise StoreError("the store was stopped", fatal=True)

    monkeypatch.setattr(store, "commit", commit)
    client = peer(a.member)
    client.hello()
    client.send(Submit(2, [Submission("id", ("k",), 60_000)]))
    eventually(lambda: a.member.active.assembly.server.activity.commit_since_ns)
    shared.write(handover=True)
    eventually(lambda: is_(b, Role.ACTIVE))
    assert hangs.is_set()
    eventually(lambda: is_(a, Role.STANDBY))
    assert a.failure is None
