"""WatchLists: exact at any moment, for any kind of key."""

import gc
import random
import threading

import pytest

from purgatory import DelayedOperation, Purgatory
from purgatory.core.operations.operation_state import Outcome
from purgatory.core.section_lists import new_watch_lists
from purgatory.core.watch_lists import WatchLists, WatchShard
from purgatory.errors import PurgatoryClosed
from tests.testing.keys import Key
from tests.testing.purgatory_harness import PurgatoryHarness, Recorder
from timingwheel import COMPILED, TimerFull

#: In the order of `WatchLists.outcomes`.
COUNTS = (Outcome.COMPLETED, Outcome.FAILED, Outcome.EXPIRED, Outcome.CANCELLED)


@pytest.fixture
def lists():
    return new_watch_lists("test")


def test_shards_have_sequence_numbers_of_their_own():
    """An operation keeps its number in the lists of all shards, where others have theirs."""
    shards, ops = [WatchShard(n) for n in range(3)], [Recorder() for _ in range(4)]
    for op in ops:
        op._op_sequence = None  # as `WatchLists.watch` does
    assert [shard.sequence_of(op) for shard, op in zip(shards, ops[:3], strict=True)] == [
        n * 2**56 + 1 for n in range(3)
    ]
    assert shards[0].sequence_of(ops[2]) == 2 * 2**56 + 1
    assert shards[0].sequence_of(ops[3]) == 2


class TestWatching:
    def test_first_come_first(self, lists):
        """The operations of a key come in the order of their arrival."""
        ops = [Recorder() for _ in range(5)]
        for op in ops:
            lists.watch(op, ("k",))
            lists._check()
        assert lists.watchers_of("k") == ops
        lists.remove(ops[0])
        assert lists.watchers_of("k") == ops[1:]

    def test_call_no_code_of_operations(self, lists):
        """The lists return operations; no method, comparison or hash of theirs is called."""

        def refuse(*_):
            raise AssertionError("called")

        hooks = ("try_complete", "on_complete", "on_cancel", "cancel", "force_complete")
        dunders = ("__eq__", "__hash__", "__bool__")
        refusing = type("Refusing", (DelayedOperation,), dict.fromkeys((*hooks, *dunders), refuse))
        first, second = refusing(30), refusing(30)
        lists.watch(first, ("a", "b"))
        lists.watch(second, ("b",))
        assert [op is first for op in lists.watchers_of("b")] == [True, False]
        assert len(lists.all()) == 2
        lists._check()
        assert lists.release(first, Outcome.CANCELLED) is None
        assert lists.remove(second) is None
        lists.close()
        assert lists.fully_drained

    def test_lists_of_another_purgatory_leave_no_trace(self):
        """An operation refused by one purgatory gets its place in the lists of the next."""
        full, other = PurgatoryHarness(max_pending=2), PurgatoryHarness()
        op = Recorder()
        for _ in range(2):
            full.purgatory.try_complete_else_watch(Recorder(), ["k"])
        with pytest.raises(TimerFull):
            full.purgatory.try_complete_else_watch(op, ["k"])
        ops = [Recorder() for _ in range(4)]
        for waiting in (*ops, op):
            other.purgatory.try_complete_else_watch(waiting, ["k"])
        lists = other.purgatory._parts.lists
        assert lists.watchers_of("k") == [*ops, op]
        lists._check()
        op.cancel()
        assert lists.watchers_of("k") == ops
        lists._check()

    def test_counts_are_exact(self, lists):
        """Entries, operations and keys are counted exactly."""
        a, b = Recorder(), Recorder()
        lists.watch(a, ("x", "y"))
        lists.watch(b, ("y", "z"))
        assert (lists.entries, lists.pending, len(lists)) == (4, 2, 3)
        lists.remove(a)
        assert (lists.entries, lists.pending, len(lists)) == (2, 1, 2)
        lists.remove(a)
        assert (lists.entries, lists.pending, len(lists)) == (2, 1, 2)
        lists.remove(b)
        assert (lists.entries, lists.pending, len(lists)) == (0, 0, 0)
        lists._check()

    def test_an_ended_operation_stays_off(self, lists):
        """An ended operation is not put on any list."""
        op = Recorder()
        op.force_complete()
        lists.watch(op, ("k",))
        assert lists.entries == 0

    def test_an_outcome_counts_once(self, lists):
        """release is idempotent: it counts an outcome once."""
        op = Recorder()
        lists.watch(op, ("k",))
        lists.release(op, Outcome.CANCELLED)
        lists.release(op, Outcome.CANCELLED)
        assert lists.outcomes() == (0, 0, 0, 1)

    @pytest.mark.parametrize("outcome", Outcome)
    def test_an_outcome_counts_as_itself(self, lists, outcome):
        """Each outcome has a count, and can be taken back from it alone."""
        for turn in (1, 2):
            op = Recorder()
            lists.watch(op, ("k",))
            lists.release(op, outcome)
            assert dict(zip(COUNTS, lists.outcomes(), strict=True)) == {
                each: turn * (each is outcome) for each in COUNTS
            }
        lists.uncount(outcome)
        assert lists.outcomes()[COUNTS.index(outcome)] == sum(lists.outcomes()) == 1

    def test_closed_lists_refuse(self, lists):
        """After close nothing may be watched; drained is set when nothing is left."""
        op = Recorder()
        lists.watch(op, ("k",))
        lists.close()
        assert not lists.drained.is_set()
        with pytest.raises(PurgatoryClosed, match="'test' is closed"):
            lists.watch(Recorder(), ("k",))
        lists.remove(op)
        assert lists.drained.is_set()
        assert lists.fully_drained

    @pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
    def test_an_interrupt_of_the_last_end(self, lists, monkeypatch):
        """It is raised; who waits for the end hears of it all the same."""
        op, interrupts, note = Recorder(), [KeyboardInterrupt], WatchLists._note_drained
        lists.watch(op, ("k",))
        lists.close()

        def interrupted(lists):
            if interrupts:
                raise interrupts.pop()
            note(lists)

        monkeypatch.setattr(WatchLists, "_note_drained", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lists.remove(op)
        assert (lists.drained.is_set(), lists.fully_drained) == (True, True)

    def test_the_second_of_a_key(self, lists):
        """Operations that share a key keep their other entries and their order."""
        first, second, third = Recorder(), Recorder(), Recorder()
        lists.watch(first, ("x",))
        lists.watch(second, ("u", "x", "v"))
        lists.watch(third, ("w", "x"))
        lists._check()
        assert (lists.entries, lists.pending, len(lists)) == (6, 3, 4)
        assert lists.watchers_of("x") == [first, second, third]
        lists.release(second, Outcome.COMPLETED)
        lists._check()
        assert (lists.watchers_of("u"), lists.watchers_of("x")) == ([], [first, third])

    @pytest.mark.parametrize("plain", [True, False])
    def test_like_a_list_of_pairs(self, lists, plain):
        """Random changes agree with a list of pairs, for each kind of key."""
        rng = random.Random(3)
        keys = [n if plain or n % 3 else Key(n) for n in range(8)]
        model: list[tuple[object, Recorder]] = []
        ended = 0
        for _ in range(2000):
            operations = list(dict.fromkeys(op for _, op in model))
            if operations and rng.random() < 0.5:
                op = rng.choice(operations)
                lists.release(op, Outcome.CANCELLED)
                model = [pair for pair in model if pair[1] is not op]
                ended += 1
            else:
                op = Recorder()
                some = rng.sample(keys, rng.randint(1, 3))
                lists.watch(op, tuple(some))
                model += [(key, op) for key in some]
            key = rng.choice(keys)
            assert lists.watchers_of(key) == [op for k, op in model if k is key]
            assert (lists.entries, lists.outcomes()[3]) == (len(model), ended)
        lists._check()

    def test_repr(self, lists):
        """The repr shows the counts."""
        lists.watch(Recorder(), ("x", "y"))
        assert repr(lists) == "<WatchLists 1 operations, 2 entries, 2 keys>"


def _raise(error):
    raise error


class TestHostileKeys:
    def test_a_key_that_cannot_be_compared_leaves_nothing_behind(self, lists):
        """A submission that fails in a key's __eq__ is rolled back."""
        lists.watch(Recorder(), (Key(1),))
        before = (lists.entries, lists.pending, len(lists))
        with pytest.raises(ZeroDivisionError):
            lists.watch(Recorder(), ("a", "b", Key(2, lambda: 1 / 0), "c"))
        assert (lists.entries, lists.pending, len(lists)) == before
        lists._check()

    def test_a_key_that_fails_at_the_end_is_reported_and_stops_nothing(self):
        """An operation leaves its other keys even if one can no longer be compared."""
        harness = PurgatoryHarness()
        p = harness.purgatory
        fail = []
        first, other = Recorder(), Recorder()
        p.try_complete_else_watch(other, [Key(0)])
        bad = Key(1, lambda: fail and 1 / 0)
        p.try_complete_else_watch(first, ["a", bad, "b"])
        # An earlier entry with the same hash is compared with it first.
        fail.append(True)
        first.ready = True
        assert p.check_and_complete("a") == 1
        fail.clear()
        assert first.calls == ["complete"]
        assert [type(error) for error, _ in harness.errors] in ([ZeroDivisionError], [])
        assert p.check_and_complete("b") == 0
        assert p.delayed == 1
        other.ready = True
        assert p.check_and_complete(Key(0)) == 1

    def test_a_key_with_a_changed_hash(self):
        """If a key's hash changes its entry is lost; the operation still ends once."""

        class Changing:
            hash = 1

            def __hash__(self):
                return self.hash

        harness = PurgatoryHarness()
        p = harness.purgatory
        key, op, good = Changing(), Recorder(5), Recorder(5)
        p.try_complete_else_watch(op, [key, "k"])
        p.try_complete_else_watch(good, ["k"])
        key.hash = 2
        op.ready = good.ready = True
        assert p.check_and_complete("k") == 2
        assert op.calls == good.calls == ["complete"]
        assert p.delayed == 0

    def test_a_key_may_come_back_while_it_is_compared(self):
        """A key's __eq__ may use the purgatory: no deadlock, and the lists stay exact."""
        harness = PurgatoryHarness()
        p = harness.purgatory
        busy = []
        extra = []

        def come_back():
            if busy or len(extra) == 100:
                return
            busy.append(True)
            op = Recorder()
            p.try_complete_else_watch(op, [Key(3), "x"])
            extra.append(op)
            for old in extra[:-1]:
                old.cancel()
            p.complete("x")
            busy.clear()

        ops = [Recorder() for _ in range(6)]
        for number, op in enumerate(ops):
            p.try_complete_else_watch(op, [Key(number % 3, come_back), number])
            assert op.cancelled() is False
        for number in range(0, 6, 2):
            ops[number].ready = True
            assert p.check_and_complete(number) == 1
        assert len(extra) > 3
        p.close()
        assert (p.watched, p.delayed) == (0, 0)
        p._check()

    def test_plain_keys_beside_one_that_comes_back(self):
        """A built-in key meets one of the same hash with an __eq__ that changes the lists."""
        harness = PurgatoryHarness()
        p = harness.purgatory
        extra = []

        def come_back():
            op = Recorder()
            extra.append(op)  # first: its key is built-in, but a change is under way
            p.try_complete_else_watch(op, ["x", "y"])
            p.complete("x")
            if len(extra) % 2:
                op.cancel()

        hostile, op = Recorder(), Recorder(ready=False)
        p.try_complete_else_watch(hostile, [Key(5, come_back)])
        p.try_complete_else_watch(op, ["a", 1, "b"])  # hash(1) is 1, as that of every Key
        assert extra
        op.ready = True
        assert p.check_and_complete(1) == 1
        hostile.cancel()
        for each in extra:
            each.cancel()
        p._check()
        assert (p.watched, p.delayed, len(harness.timer)) == (0, 0, 0)
        before = len(extra)
        p.try_complete_else_watch(Recorder(), [1, "b"])
        p._check()
        assert len(extra) == before

    def test_a_completion_in_the_middle_of_a_change(self):
        """Code that runs inside a change submits, and completes and cancels what it submitted."""
        p = PurgatoryHarness().purgatory
        completed, cancelled = [], []

        def come_back():
            completed.append(p.defer("x", "y", need=2))
            p.complete("x", 1)
            p.complete("y", 2)
            cancelled.append(Recorder())
            p.try_complete_else_watch(cancelled[-1], ["z"])
            assert p.cancel_for_key("z") == cancelled[-1:]

        p.defer(Key(5, come_back))
        p.defer(1)  # hash(1) is 1, as that of every Key
        assert [future.result(0) for future in completed] == [{"x": 1, "y": 2}] * len(completed)
        assert cancelled
        p._check()
        assert p.delayed == 2

    def test_a_close_in_the_middle_of_a_change(self):
        """Code that runs inside the submission of an operation closes: none stays pending."""
        p = PurgatoryHarness().purgatory
        futures = []

        def come_back():
            if not futures:
                futures.append(p.defer("x"))
                p.close(wait=False)

        hostile = p.defer(Key(5, come_back))
        with pytest.raises(PurgatoryClosed):
            p.defer(1)  # as above
        assert hostile.done()
        assert futures[0].done()
        assert (p.delayed, p.watched, len(p.timer)) == (0, 0, 0)
        p._check()

    def test_an_operation_may_end_while_it_is_put_on_the_lists(self):
        """A key's __eq__ that cancels the operation being watched leaves no entry behind."""
        harness = PurgatoryHarness()
        p = harness.purgatory
        p.try_complete_else_watch(Recorder(), [Key(1)])
        op = Recorder()
        assert p.try_complete_else_watch(op, ["a", Key(2, op.cancel), "b"]) is False
        assert op.calls == ["cancel"]
        assert (p.watched, p.delayed, len(harness.timer)) == (1, 1, 1)
        p._check()

    @pytest.mark.parametrize(
        ("error", "tried_again"),
        [(ZeroDivisionError, False), (MemoryError, True), (KeyboardInterrupt, True)],
    )
    def test_a_deferred_change_that_fails(self, lists, error, tried_again):
        """A key's error drops the change; after a shortage of memory or an interrupt it comes."""
        lists.watch(Recorder(), (Key(1),))
        fails, inner, outer, last = [error], Recorder(), Recorder(), Recorder()

        def come_back():
            if not inner.tries:
                inner.tries += 1
                lists.watch(inner, ("a", Key(2, fail)))

        def fail():
            if fails:
                raise fails.pop()

        with pytest.raises(error):
            lists.watch(outer, (Key(3, come_back), "c"))
        assert lists.watchers_of("c") == [outer]
        lists.watch(last, ("d",))
        assert lists.watchers_of("d") == [last]
        assert lists.watchers_of("a") == [inner] * tried_again
        lists._check()

    def test_the_first_error_of_several_keys_is_returned(self, lists):
        """Each key is tried, and the operation is off all lists whose keys can be found."""
        fails = []
        lists.watch(Recorder(), (Key(0),))
        errors = (ZeroDivisionError, IndexError)
        keys = tuple(Key(n, lambda e=e: fails and _raise(e)) for n, e in enumerate(errors, 1))
        op = Recorder()
        lists.watch(op, (keys[0], "a", keys[1], "b"))
        fails.append(True)
        # A key itself is found without a comparison, but for the one before it of the same hash.
        assert isinstance(lists.remove(op), ZeroDivisionError)
        assert (lists.watchers_of("a"), lists.watchers_of("b"), lists.pending) == ([], [], 1)

    def test_a_change_that_the_exit_has_frozen(self, lists):
        """A thread that the interpreter's exit stops in a change holds up no later change."""
        lists._changing = True
        lists.after_freeze()
        op = Recorder()
        lists.watch(op, ("k",))
        assert lists.watchers_of("k") == [op]

    def test_a_finalizer_may_come_back(self):
        """Finalizers that the collector runs anywhere submit and cancel; the lists stay exact."""
        p = PurgatoryHarness().purgatory
        threshold = gc.get_threshold()

        class Trash:
            def __init__(self, future):
                self.future = future
                self.me = self

            def __del__(self):
                self.future.cancel()
                alive.append(p.defer("k", timeout=30))

        alive = []
        gc.set_threshold(7)
        try:
            for number in range(1500):
                Trash(p.defer("k", number % 5, timeout=30))
                if number % 3 == 0:
                    p.complete("k" if number % 2 else number % 5)
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        p._check()
        p.complete("k")
        p._check()
        assert all(future.done() for future in alive)


class TestTogether:
    def test_close_while_finalizers_change_the_lists(self):
        """Listing all operations is safe while other threads add and remove some."""
        p = Purgatory()
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                for future in [p.defer(number, timeout=30) for number in range(50)]:
                    future.cancel()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(300):
                p._parts.lists.all()
                p._parts.lists._check()
        finally:
            stop.set()
            thread.join()
        assert p.delayed == 0
        p.close()
