"""Watch lists of the quickest kind here; and in shards, which together are as exact as one."""

import random
import threading

import pytest

from purgatory import DelayedOperation, Purgatory
from purgatory.core import section_lists
from purgatory.core.operations.operation_state import Outcome
from purgatory.core.section_lists import (
    SHARDS,
    AtomicWatchLists,
    ShardedWatchLists,
    new_watch_lists,
)
from purgatory.core.watch_lists import WatchLists
from purgatory.errors import PurgatoryClosed
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, Recorder
from timingwheel.lowlevel import COMPILED, LOCKED_SECTIONS

THREADS = 4
ROUNDS = 3_000
KEYS = [*range(20), "a", "b", b"c", ("d", 1), -(2**70)]


def sixteenth_of(key):
    """Return a number of a key as the C function does: the upper bits of a product."""
    return (hash(key) * 0x9E3779B97F4A7C15 & 2**64 - 1) >> 60


@pytest.fixture
def sharded(monkeypatch):
    """Watch lists in shards; with the interpreter lock, their sections take locks of Python."""
    if not LOCKED_SECTIONS:
        if COMPILED:
            pytest.skip("one shard with the GIL")
        # Else no submission is a section.
        monkeypatch.setattr(section_lists, "SETDEFAULT_FAILS_SAFELY", True)
        monkeypatch.setattr(section_lists, "_enter_section", lambda lock: lock.acquire())
        monkeypatch.setattr(section_lists, "_leave_section", lambda lock: lock.release())
        monkeypatch.setattr(section_lists, "_sixteenth_of", sixteenth_of)
        monkeypatch.setattr(section_lists, "_part_of", lambda parts, key: parts[sixteenth_of(key)])
    return ShardedWatchLists("test")


@pytest.fixture(params=["here", "sharded"])
def lists(request):
    """Watch lists of the kind that is quickest here, and in shards."""
    if request.param == "here":
        return new_watch_lists("test")
    return request.getfixturevalue("sharded")


class Foreign:
    """A key with a hash and an equality of its own, among which that of other keys."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return isinstance(other, Foreign) and self.value == other.value


def run_threads(*works):
    """Run each work in a thread of its own to its end; raise what one of them raised."""
    errors = []

    def body(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=body, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()
    assert not errors


def test_shards_only_without_the_interpreter_lock():
    """Where only one thread runs at a time one dict is enough."""
    assert isinstance(new_watch_lists("test"), ShardedWatchLists) == LOCKED_SECTIONS


def test_a_key_is_always_in_the_same_shard(sharded):
    """Equal keys are, and all shards are used."""
    of = sharded._shard_of
    assert of(1) is of(True) is of(1.0)
    assert len({id(of(number)) for number in range(1000)}) == SHARDS
    assert len({id(of(number * 4096)) for number in range(1000)}) == SHARDS


def test_a_section_enters_the_shards_of_its_keys_alone(sharded):
    """Another thread gets into the others meanwhile, and later into these."""
    keys = (1, 2, 3)
    entered = sharded._enter_all(keys)
    inside = {id(sharded._shard_of(key)) for key in keys}
    free = [shard for shard in sharded._shards if id(shard) not in inside]
    assert sum(shard.lock._is_owned() for shard in sharded._shards) == len(inside)

    def look():
        for shard in free:
            with shard.lock:
                pass

    run_threads(look)
    sharded._leave_all(entered)
    assert not any(shard.lock._is_owned() for shard in sharded._shards)
    with sharded._lock, sharded._lock:
        assert all(shard.lock._is_owned() for shard in sharded._shards)
    assert not any(shard.lock._is_owned() for shard in sharded._shards)


@pytest.mark.skipif(COMPILED, reason="compiled code has bound the calls")
@pytest.mark.parametrize("keys", [(1,), (1, 2, 3)])
def test_a_change_enters_all_shards_of_its_keys(sharded, monkeypatch, keys):
    """A submission and an end hold each lock of their keys, and leave all."""
    operation = DelayedOperation(30)
    entered = set()

    def enter(lock):
        entered.add(id(lock))
        lock.acquire()

    monkeypatch.setattr(section_lists, "_enter_section", enter)
    of_keys = {id(sharded._shard_of(key).lock) for key in keys}
    sharded.watch(operation, keys)
    assert entered == of_keys
    entered.clear()
    sharded.release(operation, Outcome.CANCELLED)
    assert entered == of_keys
    assert not any(shard.lock._is_owned() for shard in sharded._shards)


@pytest.mark.parametrize("is_sharded", [False, True])
@pytest.mark.parametrize("keys", [(1,), (1, "b", 3)])
def test_a_key_is_looked_up_once(request, is_sharded, keys):
    """For operations that share no key with others."""
    lists = request.getfixturevalue("sharded") if is_sharded else AtomicWatchLists("test")
    operations = [DelayedOperation(30), DelayedOperation(30)]
    for n, operation in enumerate(operations):
        operation._op_sequence = None
        assert lists._try_append(operation, tuple((n, key) for key in keys))
    assert lists.watchers_of((1, keys[-1])) == operations[1:]
    assert (lists.pending, lists.entries) == (2, 2 * len(keys))


class FullDict(dict):
    """Has no memory for further keys."""

    room = 0

    def setdefault(self, key, default):
        if len(self) >= self.room:
            raise MemoryError
        return super().setdefault(key, default)


@pytest.mark.skipif(COMPILED, reason="a compiled dict is final")
@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_dict_that_cannot_grow(sharded, is_sharded):
    """An operation is on none of its lists then."""
    lists = sharded if is_sharded else AtomicWatchLists("test")
    keys, operation = (1, 2, 3), DelayedOperation(30)
    shards = [sharded._shard_of(key) for key in keys] if is_sharded else [lists._first]
    shards[-1].of_key = FullDict()
    shards[-1].of_key.room = 0 if is_sharded else 2
    assert not lists._try_append(operation, keys)
    assert [shard.of_key for shard in shards] == [{}] * len(shards)
    assert (lists.pending, lists.entries, operation._op_keys) == (0, 0, ())
    lists._check()


def test_numbers_of_all_shards_are_distinct(lists):
    """An operation with keys in several shards keeps its number in each of their dicts."""
    operations = [Recorder() for _ in range(200)]
    for number, operation in enumerate(operations):
        lists.watch(operation, (number % 40, 100 + number % 7))
    lists._check()
    for key in range(7):
        assert lists.watchers_of(100 + key) == operations[key::7]
    for operation in operations[::2]:
        lists.release(operation, Outcome.CANCELLED)
        lists._check()
    assert lists.watchers_of(101) == [op for op in operations[1::7] if op in operations[1::2]]


def test_an_operation_is_added_once():
    """A section that has added it leaves nothing to do."""
    lists = AtomicWatchLists("test")
    one, two = Recorder(), Recorder()
    lists.watch(one, ("a", "b"))
    assert (lists.pending, lists.entries) == (1, 2)
    lists.watch(two, ("b",))
    assert (lists.pending, lists.entries) == (2, 3)
    assert lists.watchers_of("b") == [one, two]
    assert lists.sole_watcher("a") is one
    assert lists.sole_watcher("b") is None
    assert lists.sole_watcher("c") is None
    assert lists.sole_watcher(Foreign("a")) is None
    lists._check()
    lists.release(one, Outcome.CANCELLED)
    assert lists.watchers_of("b") == [two]
    assert lists.watchers_of("a") == []
    assert (lists.pending, lists.entries) == (1, 1)
    lists._check()


def add_pair(pair, rng, foreign):
    """Watch keys for an operation in each of two lists; some have ended before."""
    keys = rng.sample(KEYS, rng.choice((1, 1, 2, 3)))
    if rng.random() < foreign:
        keys.insert(rng.randrange(len(keys)), Foreign(rng.choice(KEYS)))
    added = Recorder(), Recorder()
    is_ended = rng.random() < 0.1
    for lists, operation in zip(pair, added, strict=True):
        operation._tt_lane = 7  # of the thread that made it
        if is_ended:
            operation.force_complete()
        lists.watch(operation, tuple(keys))
        assert operation._op_keys == (() if is_ended else tuple(keys))
    return added


def end_pair(pair, ended, outcome):
    """End the operations of two lists."""
    for lists, operation in zip(pair, ended, strict=True):
        assert lists.release(operation, outcome) is None
        assert operation._op_keys == ()


def assert_alike(pair, waiting, key):
    """Compare the watchers of a key, and all counts; return whether a sole one was found."""
    found = []
    for side, lists in enumerate(pair):
        places = {id(both[side]): place for place, both in enumerate(waiting)}
        found.append([places[id(operation)] for operation in lists.watchers_of(key)])
    assert found[0] == found[1]
    sole = pair[0].sole_watcher(key)
    assert sole is None or [sole is waiting[place][0] for place in found[0]] == [True]
    assert len({(x.entries, x.pending, len(x), x.outcomes(), x.fully_drained) for x in pair}) == 1
    pair[0]._check()
    return sole is not None


@pytest.mark.parametrize("is_sharded", [False, True])
@pytest.mark.parametrize("foreign", [0, 0.2])
def test_like_watch_lists_without_sections(request, is_sharded, foreign):
    """The same changes lead to the same lists and counts, until all is drained."""
    one = request.getfixturevalue("sharded") if is_sharded else AtomicWatchLists("test")
    pair = one, WatchLists("test")
    rng = random.Random(5)
    waiting, soles = [], 0
    for _ in range(400):
        if waiting and rng.random() < 0.4:
            end_pair(pair, waiting.pop(rng.randrange(len(waiting))), rng.choice(list(Outcome)))
        else:
            waiting.append(add_pair(pair, rng, foreign))
        soles += assert_alike(pair, waiting, rng.choice(KEYS))
    assert soles > (0 if foreign else 20)
    for lists in pair:
        lists.close()
    while waiting:
        assert not pair[0].fully_drained
        end_pair(pair, waiting.pop(rng.randrange(len(waiting))), Outcome.CANCELLED)
        assert_alike(pair, waiting, rng.choice(KEYS))
    assert pair[0].fully_drained
    assert pair[0].drained.is_set()


def test_one_without_keys_is_counted(lists):
    """An operation that completes before it waits is counted once, in whatever shard."""
    operations = [Recorder() for _ in range(3)]
    for number, operation in enumerate(operations):
        operation._tt_lane = number  # of the thread that made it; set where it matters
    run_threads(*[lambda op=op: lists.release(op, Outcome.COMPLETED) for op in operations])
    lists.release(operations[0], Outcome.COMPLETED)
    assert (lists.outcomes()[0], lists.pending, lists.entries) == (3, 0, 0)
    lists._check()


def test_threads_that_use_all_keys(lists):
    """Operations with one key and with several, and foreign keys: no entry is lost or left."""

    def work(seed):
        rng = random.Random(seed)
        waiting = []
        for _ in range(ROUNDS):
            if waiting and rng.random() < 0.5:
                operation = waiting.pop(rng.randrange(len(waiting)))
                assert lists.release(operation, Outcome.COMPLETED) is None
                assert operation._op_keys == ()
                continue
            operation = DelayedOperation(30)
            keys = rng.sample(KEYS, rng.choice((1, 1, 1, 2, 3, 5)))
            if rng.random() < 0.02:
                keys.append(Foreign(rng.choice(KEYS)))
            lists.watch(operation, tuple(keys))
            assert operation in lists.watchers_of(rng.choice(keys))
            waiting.append(operation)
        for operation in waiting:
            lists.release(operation, Outcome.CANCELLED)

    run_threads(*[lambda seed=seed: work(seed) for seed in range(THREADS)])
    lists._check()
    assert (lists.entries, lists.pending, len(lists)) == (0, 0, 0)
    assert sum(lists.outcomes()) > THREADS * ROUNDS // 2


def test_an_operation_is_on_all_its_lists_or_on_none(lists):
    """A thread that finds it by one key finds it by the others, until it ends."""
    done = threading.Event()

    def submit():
        for _ in range(ROUNDS):
            operation = DelayedOperation(30)
            lists.watch(operation, ("a", "b", "c"))
            lists.release(operation, Outcome.COMPLETED)
        done.set()

    def look():
        while not done.is_set():
            for operation in lists.watchers_of("a"):
                found = operation in lists.watchers_of("c")
                assert found or operation._op_keys == ()

    run_threads(submit, look)


def test_one_that_ends_while_it_is_submitted_is_on_no_list():
    """Another thread completes it before it watches anything, and the check after that says so."""

    class Operation(DelayedOperation):
        def try_complete(self):
            return self.done()

    p = PurgatoryHarness().purgatory
    operations = [Operation(30) for _ in range(ROUNDS)]
    meet = threading.Barrier(2)

    def end():
        for operation in operations:
            meet.wait(HANG)
            operation.force_complete()
            meet.wait(HANG)

    def submit():
        for operation in operations:
            meet.wait(HANG)
            p.try_complete_else_watch(operation, ["k", "l"])
            meet.wait(HANG)
            assert (p.watched, p.delayed) == (0, 0)

    run_threads(end, submit)
    p._check()


def test_order_of_arrival_across_threads(lists):
    """Each thread's operations of one key stay in its order."""
    made = [[DelayedOperation(30) for _ in range(ROUNDS // 10)] for _ in range(THREADS)]

    def work(operations):
        for operation in operations:
            lists.watch(operation, ("k",))

    run_threads(*[lambda operations=operations: work(operations) for operations in made])
    places = {id(operation): place for place, operation in enumerate(lists.watchers_of("k"))}
    assert len(places) == sum(map(len, made))
    for operations in made:
        found = [places[id(operation)] for operation in operations]
        assert found == sorted(found)


def test_close_while_threads_submit():
    """What got in ends, the rest is refused, and nothing is left."""
    for _ in range(20):
        p = Purgatory()
        ended = []

        def work(p=p, ended=ended):
            for number in range(ROUNDS):
                try:
                    future = p.defer(number, number + 1)
                except PurgatoryClosed:
                    return
                future.add_done_callback(ended.append)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        p.close()
        for thread in threads:
            thread.join(HANG)
        assert (p.watched, p.delayed) == (0, 0)
        assert len(ended) == p.stats().cancelled
        p._check()
