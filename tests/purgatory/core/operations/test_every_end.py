"""An operation that ends ends its future, whatever is raised between the two."""

import asyncio
import concurrent.futures
import traceback

import pytest

from purgatory import OperationExpired, Outcome, Purgatory
from purgatory.aio import AsyncPurgatory
from timingwheel import InlineExecutor, ManualClock, Timer

#: What user code raises: errors, and what ends threads and processes.
RAISED = [ValueError, MemoryError, StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit]
NO_EXCEPTIONS = [int, object(), "error", 5, Purgatory, type, BaseException.__init__]


class Key:
    """A key that raises when it is shown, which an expired future's error does."""

    def __init__(self, raised):
        self.raised = raised

    def __repr__(self):
        raise self.raised


class Journal:
    def __init__(self, raised):
        self.raised = raised

    def ended(self, operation, outcome):
        raise self.raised


class Bench:
    """A purgatory with a clock moved by hand, in which everything raises."""

    def __init__(self, raised, **options):
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, executor=InlineExecutor())
        self.p = Purgatory(timer=self.timer, **options)
        self.raised = raised

    def expire(self):
        """Let all timeouts pass, however often that is interrupted."""
        self.clock.advance(60)
        for _ in range(5):
            self.try_to(self.timer.advance_clock)

    def try_to(self, call, *arguments):
        """Call, and let what user code raises come out."""
        try:
            call(*arguments)
        except self.raised:
            pass

    def ends(self, key="k"):
        """Return the ways to end an operation."""
        return {
            Outcome.COMPLETED: lambda: self.try_to(self.p.complete, key, 1),
            Outcome.FAILED: lambda: self.try_to(self.p.fail, key, LookupError),
            Outcome.CANCELLED: lambda: self.try_to(self.p.cancel_for_key, key),
            Outcome.EXPIRED: self.expire,
        }


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("outcome", list(Outcome))
class TestWhateverIsRaised:
    @pytest.mark.parametrize("is_waited_for", [True, False])
    def test_by_a_key_that_is_shown(self, raised, outcome, is_waited_for):
        """The future is done, and says how."""
        bench = Bench(raised)
        key = Key(raised)
        future = bench.p.defer(key, timeout=5)
        if is_waited_for:
            future.add_done_callback(lambda _: None)
        bench.ends(key)[outcome]()
        assert future.done()
        if outcome is Outcome.EXPIRED:
            assert isinstance(future.exception(0), OperationExpired)
        assert bench.p.delayed == 0

    def test_by_a_journal_or_on_error(self, raised, outcome):
        """An interrupt there goes on when the future is done."""

        def on_error(error, operation):
            raise raised

        bench = Bench(raised, journal=Journal(raised), on_error=on_error)
        futures = [bench.p.defer("k", timeout=5, need=1)]
        bench.ends()[outcome]()
        assert [future.done() for future in futures] == [True]
        assert bench.p.delayed == 0

    def test_by_callbacks(self, raised, outcome):
        """Each callback of a future is called, though one raises."""
        bench, called = Bench(raised), []

        def callback(future):
            called.append(future.done())
            raise raised

        future = bench.p.defer("k", timeout=5)
        future.add_done_callback(callback)
        future.add_done_callback(lambda future: called.append(future.done()))
        bench.ends()[outcome]()
        assert called == [True, True]


class TestByHand:
    @pytest.mark.parametrize(
        "error", [ValueError, ValueError("no"), KeyboardInterrupt, SystemExit(2)]
    )
    def test_classes_are_taken(self, error):
        """An exception, or a class of them, ends the future, as one of the standard library."""
        bench = Bench(ValueError)
        future = bench.p.defer("k")
        future.set_exception(error)
        kind = error if isinstance(error, type) else type(error)
        assert type(future.exception(0)) is kind
        with pytest.raises(kind):
            future.result(0)
        assert bench.p.stats().failed == 1

    @pytest.mark.parametrize("error", NO_EXCEPTIONS)
    def test_other_objects_are_refused(self, error):
        """Anything else is a TypeError, and nothing has ended."""
        bench = Bench(ValueError)
        future = bench.p.defer("k")
        with pytest.raises(TypeError, match="error is"):
            future.set_exception(error)
        assert not future.done()
        assert bench.p.complete("k", 1) == 1

    def test_none_is_no_error(self):
        """It ends the future with the result None, as in the standard library."""
        standard, future = concurrent.futures.Future(), Bench(ValueError).p.defer("k")
        for each in (standard, future):
            each.set_exception(None)
            assert each.result(0) is None

    def test_a_class_that_cannot_be_made(self):
        """What its constructor raises comes out at once."""
        future = Bench(ValueError).p.defer("k")
        with pytest.raises(TypeError):
            future.set_exception(UnicodeDecodeError)
        assert not future.done()

    def test_on_an_event_loop(self):
        """A LoopFuture takes and refuses the same."""

        async def main():
            async with AsyncPurgatory() as p:
                for error in NO_EXCEPTIONS:
                    future = p.defer("k")
                    with pytest.raises(TypeError, match="error is"):
                        future.set_exception(error)
                    assert not future.done()
                    future.set_exception(LookupError)
                    with pytest.raises(LookupError):
                        await future

        asyncio.run(main())


def length_of_raising(future):
    """Return how long the traceback is of the exception that a result raises."""
    try:
        future.result(0)
    except LookupError as error:
        return len(traceback.extract_tb(error.__traceback__))
    return 0


def raised_somewhere():
    """Return an exception that has been raised, and the length of its traceback."""
    try:
        raise LookupError("here")
    except LookupError as error:
        return error, len(traceback.extract_tb(error.__traceback__))


class TestFail:
    def test_a_class_makes_an_error_for_each(self):
        """No two futures share an instance of a class."""
        bench = Bench(ValueError)
        futures = [bench.p.defer("k") for _ in range(20)]
        assert bench.p.fail("k", LookupError) == 20
        assert len({id(future.exception(0)) for future in futures}) == 20
        assert len({length_of_raising(future) for future in futures * 3}) == 1

    def test_a_class_that_makes_no_second_one(self):
        """Then the others share the first."""

        class Once(LookupError):
            made = 0

            def __init__(self):
                type(self).made += 1
                if self.made > 1:
                    raise ArithmeticError("once")

        bench = Bench(ValueError)
        futures = [bench.p.defer("k") for _ in range(3)]
        assert bench.p.fail("k", Once) == 3
        assert {type(future.exception(0)) for future in futures} == {Once}

    @pytest.mark.parametrize("later", [True, False])
    def test_an_instance_keeps_its_traceback(self, later):
        """Each result raises it with the traceback that it had, and no more."""
        bench = Bench(ValueError)
        error, own = raised_somewhere()
        seen = []
        futures = [bench.p.defer("k") for _ in range(20)]
        for future in futures[:10]:
            future.add_done_callback(lambda future: seen.append(length_of_raising(future)))
        if later:
            bench.p.fail_later("k", error)
            bench.p.step()
        else:
            assert bench.p.fail("k", error) == 20
        assert all(future.exception(0) is error for future in futures)
        lengths = {length_of_raising(future) for future in futures * 5} | set(seen)
        assert len(lengths) == 1
        assert own < lengths.pop() <= own + 3

    def test_on_an_event_loop(self):
        """Tasks that wait for one key raise the error with the traceback that it had."""
        lengths = []

        async def wait(p):
            try:
                await p.wait("k")
            except LookupError as error:
                lengths.append(len(traceback.extract_tb(error.__traceback__)))

        async def main():
            async with AsyncPurgatory() as p:
                tasks = [asyncio.create_task(wait(p)) for _ in range(1000)]
                await asyncio.sleep(0)
                p.fail("k", LookupError("one for all"))
                await asyncio.gather(*tasks)

        asyncio.run(main())
        assert len(lengths) == 1000
        assert len(set(lengths)) == 1
