"""SeenLease: two looks at the row of a lease."""

import pytest

from purgatory.service.store.lease import NEVER_COMMITTED, SeenLease

SEEN = SeenLease(3, 70, 9, "holder", "tcp://a:7411", 1000)


@pytest.mark.parametrize("change", [{"epoch": 4}, {"beat": 71}, {"commits": 10}, {"holder": ""}])
def test_what_the_holder_writes_is_seen(change):
    """A takeover, a beat, a commit and a release."""
    assert not SEEN.is_same(SEEN._replace(**change))


def test_what_passes_by_itself_is_no_sign_of_life():
    """The clocks go on, and somebody may ask for a handover."""
    assert SEEN.is_same(SEEN._replace(clock_ms=2000, last_commit_s=5.0, handover=True))


def test_what_a_row_need_not_say():
    """Nothing was committed, no handover is asked for, and the clocks agree."""
    assert SEEN[6:] == (NEVER_COMMITTED, False, False, 0)
