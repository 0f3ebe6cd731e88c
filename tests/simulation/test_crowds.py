"""Worlds whose events are for crowds keep every promise, and have unfinished events."""

from purgatory.service.server.records.spreads import Spreads
from tests.simulation.crowds import PORTIONS, simulate


def test_events_for_crowds(monkeypatch):
    """Some events are unfinished after their transaction, and all is as the model says."""
    added = []
    add = Spreads.add

    def spy(spreads, spread):
        added.append(len(spread.waiting))
        add(spreads, spread)

    monkeypatch.setattr(Spreads, "add", spy)
    for seed in range(2 * len(PORTIONS)):
        verdict = simulate(seed)
        assert not verdict.violation, f"seed {seed}: {verdict.violation}"
    assert max(added) > max(PORTIONS)


def test_an_event_that_a_start_finishes_at_a_moved_time():
    """In this world its last operations are of a commit in doubt, and the clock was set back."""
    verdict = simulate(7011)
    assert not verdict.violation, verdict.violation
