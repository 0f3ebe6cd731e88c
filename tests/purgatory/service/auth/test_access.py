"""What a key may do: each request of each right, own operations and those of others, and reload."""

import pytest

from purgatory.service import Config
from purgatory.service.auth.access import EVERYTHING, RIGHTS, Access
from purgatory.service.auth.authenticator import CurveAuthenticator
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.errors import KeysError, NotAllowed, OperationFailed
from purgatory.service.job_messages import (
    Begin,
    CancelJobs,
    CancelMatching,
    ChangeRepeat,
    CountJobs,
    EndLease,
    KeepLease,
    ListJobs,
    ReadJobs,
    ReadLimits,
    ReadOverview,
    ReadRepeats,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
    TakeLease,
    WatchJobs,
)
from purgatory.service.protocol import (
    Acknowledge,
    Bye,
    Cancel,
    Complete,
    Extend,
    Fail,
    Finish,
    Hello,
    Keep,
    Query,
    ReadOperations,
    Request,
    Stats,
    Submit,
    Unread,
    Work,
)
from purgatory.service.server.server import Server
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import operation

# The table of docs/service.md: right -> requests.
TABLE = {
    "submit": {
        *(Submit, Extend, Cancel, Acknowledge, CancelJobs, CancelMatching, RescheduleJobs),
        *(SetRepeat, ChangeRepeat, TakeLease, KeepLease, EndLease),
    },
    "complete": {Complete, Fail},
    "read": {
        *(Query, Stats, Unread, ReadOperations),
        *(ReadJobs, WatchJobs, ListJobs, CountJobs, ReadOverview, ReadLimits),
        ReadRepeats,
    },
    "work": {Work, Begin, Keep, Finish, RetryJobs, SetLimit},
}


def message(kind):
    """Return a request of a kind; its content does not matter."""
    return kind(*[None for _ in kind.__struct_fields__])


def is_allowed(access, kind):
    try:
        access.check_request(message(kind))
    except NotAllowed:
        return False
    return True


class TestTable:
    @pytest.mark.parametrize("right", RIGHTS)
    def test_each_request_needs_its_right(self, right):
        """A key with one right may send that right's requests, hello and bye, and no others."""
        allowed = {
            kind for kind in Request.__subclasses__() if is_allowed(Access("x", (), [right]), kind)
        }
        wanted = TABLE.get(right, set().union(*TABLE.values()))
        assert allowed == wanted | {Hello, Bye}

    def test_every_request_is_in_the_table(self):
        """A request that is added to the protocol needs a right."""
        assert set(Request.__subclasses__()) == {Hello, Bye}.union(*TABLE.values())

    @pytest.mark.parametrize("right", RIGHTS)
    def test_outcomes(self, right):
        """A key that may only complete, or only work, is sent no outcomes."""
        assert Access("x", (), [right]).gets_outcomes == (right not in ("complete", "work"))

    def test_without_limits(self):
        """All requests, all names, all operations."""
        assert all(is_allowed(EVERYTHING, kind) for kind in Request.__subclasses__())
        assert EVERYTHING.allows_name("any")
        assert not EVERYTHING.own_only

    def test_bad_values(self):
        """The error names the value and what was expected."""
        with pytest.raises(KeysError, match=r"'rule' is not a right; expected some of submit"):
            Access("x", (), ["read", "rule"])
        for name in ("a b", "", "a,b", "ä", "x" * 201):
            with pytest.raises(KeysError, match="cannot be listed"):
                Access("x", [name])


@pytest.fixture
def keys(tmp_path):
    keys = KeyStore(tmp_path / "keys")
    keys.new("server")
    return keys


@pytest.fixture
def server(keys, tmp_path):
    """A server with CURVE, in memory."""
    authenticator = CurveAuthenticator(keys)
    config = Config(data_dir=tmp_path, memory=True, bind="tcp://127.0.0.1:0")
    with Server(config, secure=authenticator) as server:
        server.on_reload(authenticator.reload)
        yield server


@pytest.fixture
def party(keys, server, connect):
    """Connect a client with a key of its own: `party(label, names, rights, name=...)`."""

    def make(label, names=(), rights=RIGHTS, **others):
        if label not in keys.names():
            keys.new(label)
            keys.allow(label, keys.pair(label).public, Access(label, names, rights))
            server.reload()
        pair = keys.pair(label)
        return connect(
            server,
            server_key=keys.pair("server").public,
            public_key=pair.public,
            secret_key=pair.secret,
            **{"name": label} | others,
        )

    return make


class TestRights:
    def test_what_is_refused_raises_and_the_connection_stays(self, party):
        """The error says which right is missing; what is allowed works as before."""
        client = party("shop", ["shop"], ["submit"])
        waiting = client.defer("k", op_id="a")
        client.flush()
        with pytest.raises(NotAllowed, match="complete needs the right 'complete'; this key has s"):
            client.complete("k")
        with pytest.raises(NotAllowed, match="query needs the right 'read'"):
            client.query("a")
        with pytest.raises(NotAllowed, match="stats needs"):
            client.stats()
        with pytest.raises(NotAllowed, match="set limit needs the right 'work'"):
            client.pause("mail")
        with pytest.raises(NotAllowed, match="read operations needs"):
            list(client.list())
        assert client.extend("a", 60)
        assert not waiting.done()
        assert client.cancel("a")

    def test_a_submit_that_is_refused(self, party):
        """Its future has the error."""
        client = party("worker", ["worker"], ["complete"])
        with pytest.raises(NotAllowed, match="submit needs"):
            client.defer("k").result(HANG)
        assert client.complete("k") == 0

    def test_a_key_belongs_to_no_client(self, party):
        """A key with the right to complete ends the operations of all clients."""
        futures = []
        for name in ("one", "two"):
            client = party(name, [name], ["submit"])
            futures.append(client.defer("k"))
            client.flush()
        worker = party("worker", ["worker"], ["complete"])
        assert worker.complete("k", 1, limit=1) == 1
        assert worker.fail("k", ValueError("no")) == 1
        assert futures[0].result(HANG) == 1
        assert isinstance(futures[1].exception(HANG), OperationFailed)

    def test_only_own_operations(self, party):
        """Those of other clients are as if they did not exist, but for one that administers."""
        shop = party("shop", ["shop"], ["submit", "read"])
        shop.defer("k", op_id="a")
        shop.flush()
        other = party("other", ["other"], ["submit", "read"])
        assert other.query("a").state == "unknown"
        assert not other.extend("a", 1)
        assert not other.cancel("a")
        assert shop.query("a").state == "pending"
        admin = party("admin", (), ["administer"])
        assert admin.query("a").client == "shop"
        assert admin.extend("a", 60)
        assert admin.cancel("a")

    def test_no_outcomes_for_a_key_that_may_only_complete(self, party):
        """It may take the name of another, but is sent nothing and can acknowledge nothing."""
        shop = party("shop", ["shop"], ["submit", "read"])
        shop.defer("k", op_id="a")
        shop.flush()
        shop.close()
        found = []
        spy = party("spy", ["shop"], ["complete"], name="shop", on_outcome=found.append)
        assert spy.complete("k") == 1
        assert spy.complete("k") == 0  # an outcome would have come before this answer
        assert found == []
        again = party("shop", on_outcome=found.append)
        again.flush()
        assert again.defer("k", op_id="a").result(HANG) is None

    def test_reading_takes_nothing_away(self, party):
        """A key that may only read is sent outcomes, and cannot acknowledge them."""
        shop = party("shop", ["shop"])
        shop.defer("k", op_id="a")
        shop.flush()
        shop.close()
        worker = party("worker", ["worker"], ["complete"])
        assert worker.complete("k", 5) == 1
        reader = party("reader", ["shop"], ["read"], name="shop", on_outcome=lambda outcome: None)
        [outcome] = reader.unread()
        with pytest.raises(NotAllowed, match="acknowledge needs the right 'submit'"):
            reader.acknowledge([outcome.number])
        assert [one.op_id for one in reader.unread()] == ["a"]
        with pytest.raises(NotAllowed, match="unread needs"):
            worker.unread()
        assert party("shop").acknowledge([outcome.number]) == 1


class TestNames:
    def test_a_key_is_bound_to_its_names(self, party):
        """Under another name it is refused, with an error that says so; under its own, served."""
        assert party("till", ["till-1", "till-2"], name="till-2").stats()["connections"] == 1
        thief = party("till", name="shop")
        with pytest.raises(NotAllowed, match="'shop' is not for this key; expected 'till-1' or"):
            thief.stats()
        with pytest.raises(NotAllowed):
            thief.defer("k").result(HANG)


class TestRoutes:
    def test_a_route_that_another_key_takes_over(self, party, keys, server, peer):
        """A key does not become the client that had said hello on the route before."""

        def connect(label):
            pair = keys.pair(label)
            return peer(
                server,
                ROUTING_ID=b"chosen",
                CURVE_PUBLICKEY=pair.public,
                CURVE_SECRETKEY=pair.secret,
                CURVE_SERVERKEY=keys.pair("server").public,
            )

        for label in ("shop", "thief"):
            party(label, [label], ["submit", "read"]).close()
        with_route = connect("shop")
        with_route.hello("shop")
        with_route.send(Submit(2, [operation("a", timeout_ms=60_000)]))
        assert with_route.receive().seq == 2
        with_route.socket.close(0)
        answer = None
        while answer is None:  # until the socket of before is gone, its route is taken
            thief = connect("thief")
            thief.send(Query(3, ["a"]))
            answer = thief.receive() if thief.socket.poll(200) else None
        assert (answer.seq, answer.code) == (3, "hello")


class TestReload:
    def test_it_applies_to_open_connections(self, party, keys, server):
        """New rights count from the reload on, in both directions."""
        client = party("shop", ["shop"], ["submit"])
        with pytest.raises(NotAllowed):
            client.stats()
        public = keys.pair("shop").public
        keys.allow("shop", public, Access("shop", ["shop"], ["read"]))
        server.reload()
        assert client.stats()["connections"] == 1
        with pytest.raises(NotAllowed):
            client.defer("k").result(HANG)

    def test_other_names(self, party, keys, server):
        """A connection whose name the key may no longer use ends; its next hello is refused."""
        client = party("shop", ["shop"])
        client.stats()
        keys.allow("shop", keys.pair("shop").public, Access("shop", ["other"]))
        server.reload()
        with pytest.raises(NotAllowed, match="'shop' is not for this key"):
            client.stats()

    def test_outcomes_begin_and_end(self, party, keys, server):
        """They are sent as soon as the key may have them, and no longer than that."""
        found = []
        owner = party("owner", ["shop"], name="shop")
        other = party("other", ["shop"], ["complete"], name="shop", on_outcome=found.append)
        owner.defer("k", op_id="a")
        owner.flush()
        owner.close()
        assert other.complete("k") == 1
        keys.allow("other", keys.pair("other").public, Access("other", ["shop"]))
        server.reload()
        while not found:
            other.stats()
        assert [outcome.op_id for outcome in found] == ["a"]
        keys.allow("other", keys.pair("other").public, Access("other", ["shop"], ["complete"]))
        server.reload()
        again = party("owner", name="shop")
        future = again.defer("k", op_id="b")
        again.flush()
        assert other.complete("k") == 1
        assert future.result(HANG) is None
        assert [outcome.op_id for outcome in found] == ["a"]


@pytest.mark.parametrize("options", [{"names": "shop"}, {"rights": "read"}])
def test_a_text_is_no_collection(options):
    """Its letters would be client names."""
    with pytest.raises(TypeError, match="expected collections"):
        Access("shop", **options)
