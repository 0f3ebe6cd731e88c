"""What one commit of the store writes."""

import pytest

from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.rows import StoredOutcome

COMMON = {"operations", "progress", "outcomes"}
ROW = [0] * len(StoredOutcome._fields)
FIELDS = [
    name for name in dir(Changes()) if name[0] != "_" and name not in {"has_others", "is_one_row"}
]


def set_one(changes, name):
    values = {"delete_queued": (0, 0, 0), "remembered": RememberedChanges()}
    setattr(changes, name, values.get(name, [1]))


def test_none():
    """New changes write nothing."""
    changes = Changes()
    assert not changes
    assert not changes.has_others
    assert not changes.is_one_row


@pytest.mark.parametrize("name", FIELDS)
def test_each_change_is_written(name):
    """Whatever there is makes a commit; what is rare is told apart."""
    changes = Changes()
    set_one(changes, name)
    assert changes
    assert changes.has_others is (name not in COMMON)


@pytest.mark.parametrize(
    ("operations", "outcomes", "is_one"),
    [(1, 0, True), (2, 0, False), (0, 1, True), (0, 2, False), (1, 1, False)],
)
def test_one_row(operations, outcomes, is_one):
    """A batch of operations or an outcome, not both."""
    changes = Changes()
    changes.operations = [None] * operations
    changes.outcomes = ROW * outcomes
    assert changes.is_one_row is is_one


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"operations", "outcomes"}))
def test_more_than_one_row(name):
    """With any other change beside, an outcome is not all."""
    changes = Changes()
    changes.outcomes = ROW
    set_one(changes, name)
    assert not changes.is_one_row
