"""Worlds of steered jobs: every promise is kept, and a broken one is seen."""

import os

import pytest

from purgatory.service.server.limits.kind_limits import KindLimits
from tests.simulation import __main__ as command
from tests.simulation.steering.repeat_world import simulate as simulate_repeats
from tests.simulation.steering.simulation import SteeredSettings, simulate
from timingwheel import COMPILED

#: How many seeds are run; more for a longer look.
SEEDS = int(os.environ.get("PURGATORY_SEEDS", "12"))
#: Found by chance. 203009618: a job was rescheduled that a handler had just begun.
#: 848195041: the world's fault: an end of an earlier job with the same id.
#: 993017: the world's fault: a job that had begun in time counted as one that may be cancelled.
#: 2000840: the world's fault: an attempt was done under a newer lease than it began with.
#: 2001317: the world's fault: a lease while the id is used again, which stays the known job's.
#: 2001326: the world's fault: a server whose clock had lost minutes passed over a job.
#: 2001710: the world's fault: a job with priority was under way to a worker that had ended.
#: 125: the world's fault: an id was forgotten in the half minute in which it was asked for.
#: 788794706: the world's fault: a stuck worker had given up its jobs, and was not gone yet.
#: 3004432: jobs that were due counted their time to begin by the clock before it was set.
#: 3000309: the world's fault: a dead job keeps its id.
#: 209979396: the world's fault: to run what is due changes no time to begin.
#: 3001262: the world's fault: an end under a newer lease was on its way, and an older one refused.
#: 3005600, 3005046: the world's fault: a machine was suspended for minutes, and read leases late.
#: 4101942: the world's fault: a job of a call that had been made again, and was not answered yet.
#: 4002881: the world's fault: a job's leases were lost five times, the next one is an attempt.
FOUND = (
    *(203009618, 848195041, 993017, 2000840, 2001317, 2001326, 2001710, 125, 788794706),
    *(3004432, 3000309, 209979396, 3001262, 3005600, 3005046, 4101942, 4002881),
)


def test_every_promise_is_kept():
    """Whatever is asked for, and whatever goes wrong."""
    verdicts = [simulate(seed) for seed in (*range(SEEDS), *FOUND)]
    assert [verdict.violation for verdict in verdicts if verdict.violation] == []
    assert sum(verdict.jobs for verdict in verdicts) > 20 * SEEDS
    assert sum(sum(verdict.faults.values()) for verdict in verdicts) > SEEDS


def test_repeats_run_when_they_are_due():
    """Once each, at the changes of summer time and over restarts, too."""
    verdicts = [simulate_repeats(seed) for seed in range(2 * SEEDS)]
    assert [verdict.violation for verdict in verdicts if verdict.violation] == []
    assert sum(verdict.faults["server_killed"] for verdict in verdicts) > SEEDS


def test_one_seed_one_history():
    """The same calls, answers, faults and attempts."""
    first, second = (simulate(3, SteeredSettings(20.0), with_history=True) for _ in range(2))
    assert first.history == second.history
    assert len(first.history) > 100


@pytest.mark.skipif(COMPILED, reason="compiled classes cannot be changed")
def test_a_failure_is_made_smaller(monkeypatch, capsys):
    """It is told with the faults that it needs: here, none."""
    monkeypatch.setattr(KindLimits, "blocked", lambda *_: "")
    assert command.main(["--steered", "--first", "2", "--seeds", "3"]) == 1
    told = capsys.readouterr().out
    assert "made smaller" in told
    assert "faults: none" in told
