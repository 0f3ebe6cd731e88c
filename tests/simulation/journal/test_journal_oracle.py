"""JournalOracle: each promise about a journal that it checks, kept and broken."""

import pytest

from purgatory.testing.world.world import NS_PER_S
from tests.simulation.journal.journal_directory import JournalDirectory
from tests.simulation.journal.journal_oracle import JournalOracle
from tests.simulation.records import CallRecord, EventRecord, ExtensionRecord, OperationRecord

T0 = 1_700_000_000_000


class Bench:
    """A journal of two operations: `a` was completed by an event, `b` extended, and expired."""

    def __init__(self):
        self.told = []
        self.directory = JournalDirectory(self.told.append)
        self.rows = {
            "operations": [
                (1, "a", "", T0, 2000, ("x", "y"), 1),
                (2, "b", "", T0, 2000, ("z",), 1),
            ],
            "outcomes": [
                (1, "a", "", "completed", T0 + 5, "x", T0, T0 + 2000, 5, 0),
                (2, "b", "", "expired", T0 + 3000, None, T0, T0 + 3000, 3000, 1),
            ],
            "events": [(1, "x", T0 + 5, 0, False)],
            "extensions": [(1, "b", T0, 3000)],
            "jobs": [],
        }
        self.operations = [
            _operation("a", ("x", "y"), ("completed", 1)),
            _operation("b", ("z",), ("expired", None)),
        ]
        extension = ExtensionRecord(0, replied_ns=9, answer=True, timeout_ns=3 * NS_PER_S)
        self.operations[1].extensions.append(extension)
        self.events = [EventRecord(1, replied_ns=9, answer=1, key="x", value=1)]

    @property
    def broken(self):
        self.directory.append(tuple(self.rows.values()))
        oracle = JournalOracle(self.directory, self.told.append)
        oracle.check(self.operations, self.events)
        return self.told[0] if self.told else ""


def _operation(op_id, keys, outcome):
    return OperationRecord(
        0, 9, "pending", op_id=op_id, keys=keys, timeout_ns=2 * NS_PER_S, outcome=outcome
    )


@pytest.fixture
def bench():
    return Bench()


def test_kept(bench):
    """It has what there was, and may have what no program was told."""
    bench.operations.append(OperationRecord(0, op_id="c", keys=("z",), timeout_ns=NS_PER_S))
    bench.rows["operations"].append((3, "d", "", T0, 2000, ("z",), 1))
    assert bench.broken == ""


@pytest.mark.parametrize(
    ("table", "row", "words"),
    [
        ("operations", (2, "e", "", T0, 2000, ("z",), 1), "has operations 2, and now gets"),
        ("operations", (3, "b", "", T0, 2000, ("z",), 1), "the journal has JournalOperation"),
        ("outcomes", (3, "b", "", "expired", T0, None, T0, T0, 0, 0), "the journal has Journal"),
        ("outcomes", (3, "f", "", "expired", T0, None, T0, T0, 0, 0), "no such operation"),
        ("extensions", (2, "b", T0, 3000), "was extended 2 times"),
        ("events", (2, "x", T0 + 6, 0, False), "has 2 events of x: 0 have counted, of 1"),
    ],
)
def test_too_much(bench, table, row, words):
    """A row that is there twice, or of nothing."""
    bench.rows[table].append(row)
    assert words in bench.broken


@pytest.mark.parametrize(
    ("table", "number", "words"),
    [
        ("operations", 0, "an end, and no such operation"),
        ("outcomes", 0, "has ended in the journal as None"),
        ("extensions", 0, "was extended 0 times"),
    ],
)
def test_too_little(bench, table, number, words):
    """What was acknowledged is missing."""
    del bench.rows[table][number]
    assert words in bench.broken


def test_an_operation_that_is_missing(bench):
    """It was acknowledged, and has not ended."""
    bench.operations.append(OperationRecord(0, 9, "pending", op_id="c", keys=("z",)))
    assert "not in the journal" in bench.broken


def test_an_event_that_is_missing(bench):
    """It has counted for an operation of one key."""
    bench.operations.append(_operation("c", ("w",), ("completed", 2)))
    bench.rows["operations"].append((3, "c", "", T0, 2000, ("w",), 1))
    bench.rows["outcomes"].append((3, "c", "", "completed", T0, "w", T0, T0 + 2000, 0, 0))
    bench.events.append(EventRecord(1, key="w", value=2))
    assert "has 0 events of w: 1 have counted, of 1" in bench.broken


def test_a_limited_event(bench):
    """It is there as often as it counts, or not at all."""
    bench.events.append(EventRecord(1, key="x", value=2, limit=2))
    bench.rows["events"] += [(2, "x", T0 + 6, 0, False), (3, "x", T0 + 7, 0, False)]
    assert bench.broken == ""


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((1, "a", "", "failed", T0 + 5, "x", T0, T0 + 2000, 5, 0), "has ended in the journal as"),
        ((1, "a", "", "completed", T0 + 5, "w", T0, T0 + 2000, 5, 0), "by another key"),
        ((1, "a", "", "completed", T0 + 5, "x", T0, T0 + 2000, 6, 0), "times that do not fit"),
    ],
)
def test_another_end(bench, row, words):
    """Than the one that was told."""
    bench.rows["outcomes"][0] = row
    assert words in bench.broken


def test_another_operation(bench):
    """Than the one that was submitted."""
    bench.rows["operations"][0] = (1, "a", "", T0, 2000, ("x", "y"), 2)
    assert "in the journal as" in bench.broken


def test_another_database(bench):
    """The rows of one are not continued with those of another one."""
    assert tuple(bench.directory.open("one")) == (0, 0, 0, 0, 0)
    assert bench.broken == ""
    assert tuple(bench.directory.open("one")) == (2, 2, 1, 1, 0)
    bench.directory.open("two")
    assert "of the database one, and now of two" in bench.told[0]


def test_cancelled_calls_are_no_extensions(bench):
    """Nor are those that the server refused."""
    bench.operations[0].cancels.append(CallRecord(3))
    bench.operations[0].extensions.append(ExtensionRecord(3, replied_ns=4, answer=False))
    assert bench.broken == ""
