"""A clock that goes back, or is frozen for a while, ends no operation early and none late."""

import asyncio
import threading

import freezegun
import pytest

from purgatory import Purgatory
from purgatory.aio import AsyncPurgatory
from timingwheel import InlineExecutor, Timer
from timingwheel.lowlevel import real_seconds

PATIENCE = 60


class SetBack:
    """A clock of milliseconds that is set back by an hour."""

    def __init__(self):
        self.now_ms = 1_800_000_000_000

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return SetBack()


@pytest.fixture
def p(clock):
    with Purgatory(timer=Timer(clock=clock, executor=InlineExecutor())) as purgatory:
        yield purgatory
        purgatory._check()


def advance(p, clock, seconds):
    """Move the clock and run what is due."""
    clock.now_ms += round(seconds * 1000)
    while p.timer.advance_clock():
        pass


class TestSetBack:
    @pytest.mark.parametrize("back_ms", [2, 3_600_000, 10**12])
    def test_timeouts(self, p, clock, back_ms):
        """Operations of before and after the step expire when their timeouts have passed."""
        old = p.defer("k", timeout=30)
        advance(p, clock, 10)
        clock.now_ms -= back_ms
        new = p.defer("k", timeout=30)
        advance(p, clock, 19)
        assert (old.done(), new.done()) == (False, False)
        advance(p, clock, 2)
        assert (old.done(), new.done()) == (True, False)
        advance(p, clock, 8)
        assert not new.done()
        advance(p, clock, 2)
        assert new.done()

    @pytest.mark.parametrize("back_ms", [2, 3_600_000])
    def test_held_events_and_extensions(self, p, clock, back_ms):
        """Holding and extending count what the clock moves from then on."""
        advance(p, clock, 1)
        clock.now_ms -= back_ms
        p.complete("early", 1, hold=10)
        extended = p.defer("k", timeout=5)
        assert extended.extend(20)
        advance(p, clock, 9.9)
        assert p.defer("early").result(0) == 1
        advance(p, clock, 0.2)
        assert not p.defer("early").done()
        assert not extended.done()
        clock.now_ms -= back_ms
        advance(p, clock, 0)  # a step that no reading tells from time that passes more slowly
        advance(p, clock, 9.8)
        assert not extended.done()
        advance(p, clock, 0.2)
        assert extended.done()


class TestFrozen:
    def test_a_started_purgatory_outlives_a_frozen_block(self):
        """What waits, what comes in the block and what comes after it all wait on."""
        with Purgatory() as p:
            futures = [p.defer("k", timeout=600)]
            for date in ("2024-01-01", "2034-01-01"):
                with freezegun.freeze_time(date):
                    futures.append(p.defer("k", timeout=600))
                    soon = p.defer("soon", timeout=0.05)
                futures.append(p.defer("k", timeout=600))
                assert isinstance(soon.exception(PATIENCE), TimeoutError)
            runs = []
            p.timer.every(300, runs.append, 1)
            assert isinstance(p.defer("soon", timeout=0.05).exception(PATIENCE), TimeoutError)
            assert not any(future.done() for future in futures)
            assert runs == []

    def test_on_an_event_loop(self):
        """A loop's own clock goes back at the end of the block; its operations end in time."""

        async def main():
            async with AsyncPurgatory() as p:
                before = p.defer("k", timeout=600)
                with freezegun.freeze_time("2024-01-01"):
                    inside = p.defer("k", timeout=0.05)
                    await asyncio.to_thread(threading.Event().wait, 0.03)
                    assert not inside.done()
                while not inside.done():
                    await asyncio.to_thread(threading.Event().wait, 0.01)
                assert not before.done()

        asyncio.run(main())

    def test_closing_in_a_block_ends_in_time(self):
        """The timeout of close is real time: a frozen one would never be over."""
        busy, go_on = (threading.Event(), threading.Event()), threading.Event()
        p = Purgatory()
        p.start()
        future = p.defer("k", timeout=600)
        future.add_done_callback(lambda _: (busy[0].set(), go_on.wait(PATIENCE)))
        p.complete_later("k")
        p.timer.schedule(0, lambda: (busy[1].set(), go_on.wait(PATIENCE)))
        assert all(each.wait(PATIENCE) for each in busy)
        before_s = real_seconds()
        with freezegun.freeze_time("2024-01-01"):
            p.close(timeout=0.1)
        took_s = real_seconds() - before_s
        go_on.set()
        assert took_s < PATIENCE / 2
