"""Operations end although the executor of their timer refuses, or drops, what came due."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory import OperationExpired, Purgatory
from timingwheel import ManualClock, Timer

COUNT = 1000
HANG = 30  # seconds; a test that waits longer has failed


@pytest.mark.parametrize("refuses", [True, False])
def test_all_expire(refuses):
    """Each operation expires once; on_error of the timer is told; nothing is left."""
    told, clock, pool, gate = [], ManualClock(), ThreadPoolExecutor(1), threading.Event()
    timer = Timer(clock=clock, executor=pool, on_error=lambda error, task: told.append(error))
    pool.submit(gate.wait, HANG)  # the jobs wait behind it, to be dropped
    if refuses:
        pool.shutdown(wait=False)
    with Purgatory(timer=timer) as p:
        futures = [p.defer(number, timeout=1 + number % 10 / 1000) for number in range(COUNT)]
        clock.advance(2)
        timer.advance_clock()
        pool.shutdown(wait=False, cancel_futures=True)
        gate.set()
        for future in futures:
            with pytest.raises(OperationExpired):
                future.result(HANG)
        assert (p.delayed, p.watched, p.stats().expired) == (0, 0, COUNT)
        p._check()
    timer.close()
    assert len(told) == COUNT
    assert timer.stats().executor_backlog == 0
