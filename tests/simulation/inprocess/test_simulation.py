"""Worlds of threads: every promise is kept, and a seed is one interleaving."""

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from purgatory.bus.worker_pool import PoolWorker
from tests.simulation import __main__ as command
from tests.simulation.inprocess.simulation import ThreadSettings, simulate
from timingwheel import COMPILED, TimerTask

#: How many seeds are run; more for a longer look.
SEEDS = int(os.environ.get("PURGATORY_SEEDS", "20"))
PRINT_HISTORIES = """
from tests.simulation.inprocess.simulation import simulate
for seed in range(4):
    print(*simulate(seed, with_history=True).history, sep="\\n")
"""


def test_every_promise_is_kept():
    """Whatever the order in which threads take their steps."""
    verdicts = [simulate(seed) for seed in range(SEEDS)]
    assert [verdict.violation for verdict in verdicts if verdict.violation] == []
    assert sum(verdict.operations for verdict in verdicts) > 3 * SEEDS


def test_a_close_in_a_check_has_a_timeout():
    """It may be the check of an operation that is submitted, for which it would wait for ever."""
    assert simulate(547335929).violation == ""


def test_a_driven_timer_cancels_what_is_not_due_in_its_time():
    """A thread that drives it saw that it was closed, and left tasks that nothing ended."""
    assert simulate(83).violation == ""


def test_one_seed_one_history():
    """Whatever order sets have in a process, and however busy the machine is."""
    digests = set()
    for hash_seed in ("0", "1"):
        told = subprocess.run(
            [sys.executable, "-c", PRINT_HISTORIES],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        assert told.count(b"\n") > 50
        digests.add(hashlib.sha256(told).hexdigest())
    assert len(digests) == 1


class OtherTask(TimerTask):
    """A class that the worlds do not know."""

    def run(self):
        """Do nothing."""


def test_what_ran_before_changes_nothing():
    """A seed that fails among others fails alone, too; 107 shares code with what ran before."""
    simulate(107)
    after_itself = simulate(107, with_history=True).history
    OtherTask(1.0)  # of tasks that override `run`, the timer knows the class of the last
    assert simulate(107, with_history=True).history == after_itself


def test_nothing_stays_replaced():
    """Locks, threads and clocks are the real ones again, also after a failure."""
    before = (threading.Lock, threading.RLock, threading.Thread.start, threading.Thread.join)
    simulate(0)
    assert before == (
        *(threading.Lock, threading.RLock),
        *(threading.Thread.start, threading.Thread.join),
    )


@pytest.fixture
def forgetful(monkeypatch):
    """Tasks that say they were cancelled, and run all the same."""
    monkeypatch.setattr(TimerTask, "cancel", lambda task: True)


@pytest.mark.skipif(COMPILED, reason="compiled classes cannot be changed")
@pytest.mark.usefixtures("forgetful")
def test_a_failure_is_made_smaller(capsys):
    """It is told with its seed, with as few threads and calls as show it."""
    assert command.main(["--inprocess", "--seeds", "8"]) == 1
    told = capsys.readouterr().out
    assert "ended more often than it was added" in told
    assert "made smaller" in told
    assert "threads, and" in told


def test_settings_bound_the_world():
    """One thread that makes few calls."""
    verdict = simulate(1, ThreadSettings(threads=1, calls=2), with_history=True)
    callers = {line.split()[1] for line in verdict.history if "caller" in line}
    assert callers <= {"caller-0:"}
    assert verdict.operations <= 4


@pytest.mark.skipif(COMPILED, reason="compiled classes cannot be changed")
def test_a_worker_that_is_not_woken_is_found(monkeypatch):
    """Its tasks do not run, or a thread waits for it for ever."""
    monkeypatch.setattr(PoolWorker, "flush", lambda worker: worker._pipe.flush())
    assert any(simulate(seed).violation for seed in range(30))
