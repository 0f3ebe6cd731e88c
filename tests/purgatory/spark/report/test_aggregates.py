"""Aggregates of a journal, compared with the same in plain Python."""

from collections import Counter

from purgatory.spark.report import aggregates
from purgatory.spark.report.content import ValueCount
from purgatory.trace import Operation
from tests.testing.journals import make_outcome, operations_frame, outcomes_frame, random_outcomes

HOUR = 3_600_000


def test_kinds_are_described(spark):
    """All kinds together come first, then the largest ones."""
    rows = random_outcomes(1, 400)
    found = aggregates.describe_kinds(outcomes_frame(spark, rows), 2).collect()
    counts = Counter(r.kind for r in rows).most_common(2)
    assert [(r.kind, r.operations) for r in found] == [(None, 400), *counts]
    assert [r.total for r in found] == [True, False, False]
    assert found[0][2:] == (
        len(rows),
        4,
        min(r.submitted_ms for r in rows),
        min(r.at_ms for r in rows),
        max(r.at_ms for r in rows),
    )


def naive_counts(rows, measure, value):
    """Count outcomes by kind and value."""
    counts = Counter((r.kind, measure, value(r), r.outcome) for r in rows)
    return {
        (*of, *(counts[*of, outcome] for outcome in ValueCount._fields[1:]))
        for of in {key[:3] for key in counts}
    }


def test_all_measures_are_counted(spark):
    """One query counts waits, lateness, timeouts, ends, hours of the week and submissions."""
    rows = random_outcomes(2, 300)
    rows.append(make_outcome(999, 4 * 24 * HOUR - 1, 5, 4 * 24 * HOUR + 3, outcome="failed"))
    rows.append(make_outcome(998, -1, 5, 2))
    operations = [Operation(r.op_id, r.kind, r.submitted_ms, 1, ("k",)) for r in rows]
    found = aggregates.count_values(
        outcomes_frame(spark, rows), operations_frame(spark, operations), 10, exact=True
    ).collect()
    expected = {
        aggregates.WAIT: lambda r: r.waited_ms,
        aggregates.LATENESS: lambda r: r.lateness_ms,
        aggregates.TIMEOUT: lambda r: r.deadline_ms - r.submitted_ms,
        aggregates.END: lambda r: r.at_ms - r.at_ms % 10,
        # The epoch was a Thursday, 72 hours after a Monday began.
        aggregates.WEEK_HOUR: lambda r: (r.submitted_ms // HOUR + 72) % 168,
    }
    wanted = set().union(*(naive_counts(rows, m, value) for m, value in expected.items()))
    submitted = Counter(r.kind for r in rows)
    wanted |= {(kind, aggregates.SUBMITTED, 0, n, 0, 0, 0) for kind, n in submitted.items()}
    assert {tuple(row) for row in found} == wanted
    assert len(found) == len(wanted)


def test_long_values_are_rounded_up(spark):
    """Unless exact, waits of 10 s and more are rounded up, never down, to four digits."""
    waits = [0, 9_999, 10_000, 10_001, 123_456, 999_999]
    rows = [make_outcome(n, 0, 10**7, wait) for n, wait in enumerate(waits)]
    counts = aggregates.count_values(outcomes_frame(spark, rows), None, 10**9, exact=False)
    found = counts.where(f"measure = {aggregates.WAIT}").collect()
    assert sorted(r.value for r in found) == [0, 9_999, 10_000, 10_010, 123_500, 1_000_000]


def test_the_longest_timeout_stays_as_it_is(spark):
    """As of operations without a deadline: a rounded one would leave 64 bits."""
    rows = [make_outcome(0, 0, 2**63 - 1, 5)]
    counts = aggregates.count_values(outcomes_frame(spark, rows), None, 10**9, exact=False)
    (found,) = counts.where(f"measure = {aggregates.TIMEOUT}").collect()
    assert found.value == 2**63 - 1


def test_small_kinds_are_folded(spark):
    """A kind that is not listed becomes null; nothing else changes."""
    rows = random_outcomes(2, 50)
    folded = aggregates.fold_kinds(outcomes_frame(spark, rows), ["a", ""]).collect()
    known = Counter(r.kind if r.kind in {"a", ""} else None for r in rows)
    assert Counter(r.kind for r in folded) == known


def test_hot_keys(spark):
    """Keys are ranked by operations that watch them; repeats and single uses do not count."""
    operations = [
        Operation("o0", "a", 0, 9, ("hot", "warm", "hot")),
        Operation("o1", "a", 0, 9, ("hot", "lone")),
        Operation("o2", "b", 0, 9, ("hot", "warm")),
        Operation("o3", "b", 0, 9, ("double", "double")),
    ]
    outcomes = [
        make_outcome(0, 0, 9, 1, kind="a", key="warm"),
        make_outcome(1, 0, 9, 1, kind="a", key="hot"),
        make_outcome(2, 0, 9, 1, kind="b", key="warm"),
        make_outcome(3, 0, 9, kind="b"),
        make_outcome(4, 0, 9, 1, kind="c", key="elsewhere"),
        make_outcome(5, 0, 9, 1, kind="c", key="elsewhere"),
    ]
    found = aggregates.hot_keys(
        outcomes_frame(spark, outcomes), operations_frame(spark, operations), max_keys=2
    ).collect()
    assert [(r.total, r.kind, r.key, r.watched, r.completed) for r in found] == [
        (True, None, "hot", 3, 1),
        (True, None, "warm", 2, 2),
        (False, "a", "hot", 2, 1),
        (False, "c", "elsewhere", 0, 2),
    ]


def test_hot_keys_without_operations(spark):
    """Keys are ranked by completions; the number of watchers is null."""
    outcomes = [make_outcome(n, 0, 9, 1, key=f"k{n % 3 % 2}") for n in range(6)]
    found = aggregates.hot_keys(outcomes_frame(spark, outcomes), None, max_keys=5).collect()
    total = [(r.key, r.watched, r.completed) for r in found if r.total]
    assert total == [("k0", None, 4), ("k1", None, 2)]
