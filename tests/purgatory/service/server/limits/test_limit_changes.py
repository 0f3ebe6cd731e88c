"""What a transaction changes of limits."""

from purgatory.service.job_messages import SetLimit
from purgatory.service.server.limits.kind_limits import KindLimits
from purgatory.service.server.limits.limit_changes import LimitChanges
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import StoredLimit
from tests.testing.step_server import step_server

__all__ = ["step_server"]


def test_several_changes_of_a_kind():
    """The later ones see the earlier ones; one row is written, or deleted."""
    limits, changes = KindLimits(), Changes()
    limits.put(StoredLimit("b", 1, 0, 0.0), 0)
    changed = LimitChanges(limits, changes, 0)
    changed.put(StoredLimit("a", 1, 0, 0.0))
    assert changed.find("a").paused
    changed.put(changed.find("a")._replace(running=5))
    changed.put(changed.find("b")._replace(paused=0))
    changed.prepare()
    assert changes.limits == ["a", 1, 5, 0.0]
    assert changes.delete_limits == ["b"]
    assert not limits.has("a")
    changed.publish()
    assert (limits.has("a"), limits.has("b")) == (True, False)


def test_a_commit_that_fails(step_server):
    """Nothing has changed, in memory and on disk."""
    step_server.faults.fail()
    answer = step_server.ask(SetLimit, "a", True)
    assert answer.code == "store"
    assert not step_server.state.leases.limits.is_used
    step_server.faults.clear()
    step_server.crash()
    assert not step_server.state.leases.limits.is_used
