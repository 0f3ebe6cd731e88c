"""The estimate of the memory that a server takes, and what happens when it may take no more."""

import random

import pytest

from purgatory.service import ServerError
from purgatory.service.encoding import encode
from purgatory.service.errors import TooManySessions
from purgatory.service.job_messages import LimitSet, SetLimit
from purgatory.service.protocol import Cancel, Complete, Completion, Fail, KeyFailure, Raw
from purgatory.service.server.memory import (
    PROCESS_BYTES,
    StoredMemoryCheck,
    client_bytes,
    held_bytes,
    job_bytes,
    limit_bytes,
    operation_bytes,
    outcome_bytes,
    reply_bytes,
    session_bytes,
    spread_bytes,
    text_bytes,
    value_bytes,
)
from purgatory.service.server.records import retention
from purgatory.service.server.records.remembered_replies import RememberedReplies, session_key
from tests.testing.naive_memory import naive_memory
from tests.testing.step_server import StepServer, operation


@pytest.fixture
def full(tmp_path):
    """Make a server that has room for so many bytes of operations and events."""
    servers = []

    def make(size):
        servers.append(StepServer(tmp_path / "a.db", max_memory=PROCESS_BYTES + size))
        servers[-1].hello()
        return servers[-1]

    yield make
    servers[-1].store.close()


class RandomRequests:
    """Sends a server any requests, of two clients and with two sessions or none."""

    def __init__(self, server, dice):
        self.server, self.dice = server, dice
        self.submitted = 0
        self.requests = [self.submit, self.submit, self.complete, self.complete, self.fail]
        self.requests += [self.cancel, self.acknowledge]

    def key(self):
        return f"{self.dice.choice('kä€')}{self.dice.randrange(8)}"

    def ask(self, request, items):
        self.server.ask(request, items, session=self.dice.choice(("", "one", "two")))

    def submit(self):
        keys = [self.key() for _ in range(self.dice.randrange(1, 5))]
        need = self.dice.randrange(1, 1 + len(set(keys)))
        timeout_ms = self.dice.randrange(99)
        self.submitted += 1
        self.server.submit(
            operation(f"o{self.submitted}", *keys, need=need, kind="pay", timeout_ms=timeout_ms),
            client=self.dice.choice("cd"),
        )

    def complete(self):
        value = Raw(encode("v" * self.dice.randrange(300)))
        hold_ms = self.dice.choice((0, 30))
        self.ask(Complete, [Completion(self.key(), value, None, hold_ms)])

    def fail(self):
        self.ask(Fail, [KeyFailure(self.key(), "E", "why")])

    def cancel(self):
        self.ask(Cancel, [f"o{self.dice.randrange(self.submitted + 1)}"])

    def acknowledge(self):
        numbers = range(1, self.server.state.last_seq + 1)
        self.server.acknowledge(*numbers, client=self.dice.choice("cd"))


@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_is_the_sum_of_all_there_is(step_server, monkeypatch, seed):
    """After any requests, deletions, sessions, failed commits and restarts."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 20)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 5)
    server, dice = step_server, random.Random(seed)
    requests = RandomRequests(server, dice)
    for _ in range(400):
        if dice.random() < 0.1:
            server.faults.fail()
        dice.choice(requests.requests)()
        server.faults.clear()
        if dice.random() < 0.02:
            server.crash()
        server.pass_time(dice.choice((0, 0, 5, 50, 1001)))
        assert server.state.memory_bytes == naive_memory(server.state)
    server.pass_time(10**4)
    for client in "cd":
        server.acknowledge(*range(1, server.state.last_seq + 1), client=client)
    server.pass_time(10**8)
    assert not server.state.known
    assert server.state.memory_bytes == naive_memory(server.state) < PROCESS_BYTES + 2000


def test_submits_are_refused_when_there_is_no_room(full):
    """What makes room still goes through, and then there is some."""
    server = full(10_000)
    answer = server.submit(*(operation(f"o{n}", "k") for n in range(20)))
    assert {refusal.code for refusal in answer.refused} == {"too-much-memory"}
    assert 0 < server.state.purgatory.delayed < 20
    most = PROCESS_BYTES + 10_000
    assert f"expected at most {most}" in answer.refused[0].message
    assert server.state.memory_bytes <= most
    assert server.cancel("o0").done == [True]
    assert server.complete("k").counts[0] > 0
    server.acknowledge(1, 2, 3)
    assert server.submit(operation("later", "k")).refused == []


def test_what_takes_nothing_is_never_refused(full):
    """Also by a server that takes more than it may: else it could never give memory back."""
    server = full(30_000)
    server.submit(
        *(operation(f"o{n}", f"k{n}") for n in range(9)), operation("two", "a", "b", need=2)
    )
    server.ask(SetLimit, "mail", True)
    server.state.max_memory = server.state.memory_bytes - 500
    assert server.state.memory_left < 0
    assert server.complete("k0", "value").counts == [1]
    assert server.fail("k1").counts == [1]
    assert server.complete("nobody", "value").counts == [0]
    assert server.ask(Complete, [Completion(f"k{n}", Raw(encode(n))) for n in (2, 3)]).counts == [
        1,
        1,
    ]
    assert server.cancel("o4").done == [True]
    assert isinstance(server.ask(SetLimit, "mail", False, 5), LimitSet)
    assert isinstance(server.ask(SetLimit, "mail", None, 0), LimitSet)
    server.state.max_memory = server.state.memory_bytes - 500
    assert server.complete("a", "v" * 900).code == "too-much-memory"
    assert server.submit(operation("more")).refused[0].code == "too-much-memory"


def test_a_large_operation_is_refused_where_a_small_one_is_not(full):
    """The size counts, not the number."""
    server = full(22_000)
    large = operation("large", *(f"{n}" * 900 for n in range(9)), timeout_ms=10**8)
    answer = server.submit(*[operation(f"o{n}") for n in range(5)], large, operation("small"))
    assert [refusal.index for refusal in answer.refused] == []
    answer = server.submit(
        operation("small 2"),
        operation("o7"),
        *[operation(f"large {n}", *large.keys) for n in range(2)],
    )
    assert [refusal.index for refusal in answer.refused] == [2, 3]


def test_events_that_leave_something_behind_are_refused_when_there_is_no_room(full):
    """Nothing of the request is done; an event that leaves nothing behind is not refused."""
    server = full(18_700)
    server.submit(*(operation(f"o{n}", "x", "y", need=2) for n in range(10)))
    value = "v" * 900
    held = [Completion(f"z{n}", Raw(encode(value)), None, 10) for n in range(3)]
    assert server.ask(Complete, held).code == "too-much-memory"
    assert len(server.state.held) == 0
    assert server.complete("x", value).code == "too-much-memory"
    assert server.complete("z", value).counts == [0]
    assert server.query("o0").keys_done == []
    assert server.complete("x", 1).counts == [0]
    assert server.complete("y", 1).counts == [10]


def test_replies_are_refused_when_they_take_too_much(tmp_path):
    """Those that are remembered are charged, and stay, also at the next start."""
    server = StepServer(tmp_path / "a.db", max_memory=8 * PROCESS_BYTES)
    server.state.replies = RememberedReplies(60_000)
    before = server.state.memory_bytes
    complete = Complete, [Completion("k")]
    answers = [server.ask(*complete, session=f"s{n}", seq=1) for n in range(100)]
    replies = server.state.replies
    assert server.state.memory_bytes - before == replies.bytes <= 30_000 + 2000
    assert answers[0].counts == [0]
    assert answers[99].code == TooManySessions.code
    assert replies.find(session_key("c", "s0"), 1)
    server.crash()
    assert server.state.replies.bytes == replies.bytes
    server.store.close()


def test_a_start_with_more_than_there_is_room_for(full, tmp_path):
    """It says what to do, and has not loaded it; with that much the server starts."""
    server = full(10**6)
    for n in range(600):
        server.submit(operation(f"o{n}"))
    server.store.close()
    server.max_memory = PROCESS_BYTES + 10**5
    with pytest.raises(ServerError, match=r"max_memory is \d+: raise it to \d+, or to 0") as error:
        server.open()
    server.store.close()
    needed = int(str(error.value).split("raise it to ")[1].split(",")[0])
    assert 700_000 < needed - PROCESS_BYTES < 1_000_000
    server.max_memory = needed
    server.open()
    assert server.state.purgatory.delayed == 600


def test_a_start_with_a_little_more_than_it_may_take(step_server):
    """A tenth of the room for operations is let through, to the byte."""
    check = StoredMemoryCheck(step_server.store, PROCESS_BYTES + 10_000).check
    check(PROCESS_BYTES + 11_000)
    with pytest.raises(ServerError, match="what is stored takes"):
        check(PROCESS_BYTES + 11_001)
    StoredMemoryCheck(step_server.store, 0).check(10**12)


def test_stored_operations_are_estimated_as_loaded_ones(step_server):
    """Pending and ended operations, whatever the alphabets of their ids, kinds and keys."""
    step_server.submit(
        operation("ä€" * 20, "k", kind="pay"), operation("o", "ü" * 30, "l", kind="pay" * 9)
    )
    step_server.submit(operation("€" * 30, "ended"))
    step_server.complete("ended")
    step_server.crash()
    size = step_server.state.memory_bytes - step_server.state.clients.bytes
    with pytest.raises(ServerError, match=f"takes about {size} bytes"):
        StoredMemoryCheck(step_server.store, PROCESS_BYTES).check(PROCESS_BYTES + 1)


@pytest.mark.parametrize("what", ["held", "values", "replies"])
def test_a_start_with_large_values(full, what):
    """They are counted before they are read."""
    server = full(10**6)
    value = Raw(encode("v" * 900))
    server.submit(*(operation(f"o{n}", "x", "y", need=2) for n in range(20)))
    for n in range(20):
        if what == "held":
            server.complete(f"held {n}", "v" * 900, hold_ms=10**8)
        elif what == "replies":
            server.ask(Complete, [Completion("k", value)] * 200, session=f"s{n}", seq=1)
    if what == "values":
        server.complete("x", "v" * 900)
    before = server.state.memory_bytes
    server.store.close()
    server.max_memory = PROCESS_BYTES + 1000
    with pytest.raises(ServerError, match=f"takes about {before} bytes|takes about") as error:
        server.open()
    assert abs(int(str(error.value).split("about ")[1].split()[0]) - before) < 2000
    server.store.close()
    server.max_memory = 0
    server.open()


def test_estimates_of_the_common_case():
    """They are those of the general case."""
    assert job_bytes([], ["key"]) == job_bytes(["key"], [])
    one, two, three = (operation_bytes("id", "kind", ("key",) * count) for count in (1, 2, 3))
    assert two - one == three - two
    long, wide = (operation_bytes(op_id, "", ("key",)) for op_id in ("long", "wäde"))
    assert wide - long == text_bytes("wäde") - text_bytes("long")


@pytest.mark.parametrize("text", ["a" * 99, "ä" * 99])
def test_a_longer_text_takes_so_much_more(text):
    """Whatever it names."""
    for size_of in (
        *(outcome_bytes, session_bytes, limit_bytes, client_bytes),
        lambda key: held_bytes(key, 0),
        lambda key: job_bytes([], [key]),
        lambda op_id: operation_bytes(op_id, "", ("k",)),
        lambda key: operation_bytes("o", "", (key,)),
    ):
        assert size_of(text) == size_of("") + text_bytes(text)


def test_a_longer_value_takes_so_much_more():
    """Of an operation, an event or a reply."""
    for size_of in (
        *(value_bytes, reply_bytes),
        lambda length: held_bytes("k", length),
        lambda length: spread_bytes(2, length),
    ):
        assert size_of(500) == size_of(0) + 500 > 500
    assert spread_bytes(9, 0) > spread_bytes(2, 0)


def test_estimates_of_texts():
    """Characters beyond ASCII take more, and never less than they really do."""
    for text in ("", "a" * 99, "ä" * 99, "€" * 99, "\U0001f600" * 99, "a" * 99 + "\U0001f600"):
        really = text.__sizeof__() - "".__sizeof__() + (0 if text.isascii() else len(text.encode()))
        assert text_bytes(text) + 40 >= really
    assert operation_bytes("a", "", ("k", "l")) > operation_bytes("a", "", ("k",))
