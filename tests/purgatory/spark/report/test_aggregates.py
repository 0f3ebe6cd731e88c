"""Aggregates of a journal, compared with the same in plain Python."""

import math
from collections import Counter

import pytest

from purgatory.spark.report import aggregates
from purgatory.trace import Operation
from tests.testing.journals import make_outcome, operations_frame, outcomes_frame, random_outcomes


def nearest_rank(values):
    """Return the quantiles of values by nearest rank; None for no values."""
    ordered = sorted(values)
    ranks = (max(1, math.ceil(q * len(ordered))) for q in aggregates.QUANTILES)
    return [ordered[rank - 1] for rank in ranks] if ordered else None


def expected_summary(rows, kind):
    """Return what `summarize_kinds` must give for a kind, None for all kinds."""
    of = [r for r in rows if kind in (None, r.kind)]
    ends = Counter(r.outcome for r in of)
    completed = [r.waited_ms for r in of if r.outcome == "completed"]
    return (
        (len(of), ends["completed"], ends["expired"], ends["cancelled"]),
        sum(r.waited_ms for r in of) / len(of),
        nearest_rank([r.waited_ms for r in of]),
        nearest_rank(completed),
        nearest_rank([r.lateness_ms for r in of]),
    )


@pytest.mark.parametrize("exact", [True, False])
def test_summary_counts_and_ranks(spark, exact):
    """Counts, averages and nearest ranks are right for each kind and in total.

    With so few rows, the approximate quantiles are exact, too.
    """
    rows = random_outcomes(1, 400)
    found = aggregates.summarize_kinds(outcomes_frame(spark, rows), exact=exact).collect()
    assert [(r.total, r.kind) for r in found[:2]] == [(True, None), (False, "a")]
    assert {r.kind for r in found} == {None, "a", "b", "", "rare"}
    for r in found:
        shown = (
            (r.operations, r.completed, r.expired, r.cancelled),
            pytest.approx(r.mean_waited_ms),
            r.waited_ms,
            r.completed_waited_ms,
            r.lateness_ms,
        )
        assert expected_summary(rows, r.kind) == shown


def test_summary_of_nothing_completed(spark):
    """Without completed operations their quantiles are null."""
    for exact in (True, False):
        (total, kind) = aggregates.summarize_kinds(
            outcomes_frame(spark, [make_outcome(0, 0, 5)]), exact=exact
        ).collect()
        assert total.completed_waited_ms is None
        assert (kind.expired, kind.waited_ms) == (1, [5] * 4)


def test_small_kinds_are_folded(spark):
    """A kind that is not listed becomes null; nothing else changes."""
    rows = outcomes_frame(spark, random_outcomes(2, 50))
    folded = aggregates.fold_kinds(rows, ["a", ""])
    kinds = {r.kind: r["count"] for r in aggregates.count_kinds(folded).collect()}
    all_kinds = {r.kind: r["count"] for r in aggregates.count_kinds(rows).collect()}
    assert kinds == {
        "a": all_kinds["a"],
        "": all_kinds[""],
        None: all_kinds["b"] + all_kinds["rare"],
    }


def test_over_time(spark):
    """Each outcome is in the bin of its time, also before 1970; empty bins have no row."""
    rows = [
        make_outcome(0, -20, 15),
        make_outcome(1, -9, 9, 0),
        make_outcome(2, 0, 9, 9),
        make_outcome(3, 0, 9, 9, outcome="cancelled"),
        make_outcome(4, 0, 31, 31, kind="b"),
    ]
    found = aggregates.outcomes_over_time(outcomes_frame(spark, rows), 10).collect()
    assert [tuple(r) for r in found] == [
        ("", -10, 0, 1, 0),
        ("", 0, 2, 0, 1),
        ("b", 30, 1, 0, 0),
    ]


@pytest.mark.parametrize(
    ("span", "width"),
    [(0, 1), (96, 1), (97, 2), (60_000, 1000), (365 * 86_400_000, 7 * 86_400_000)],
)
def test_bins_have_round_widths(span, width):
    """The width is the smallest round one that needs no more than 96 bins."""
    assert aggregates.bin_width_ms(span) == width


def test_bins_of_an_age():
    """A very long span has at most 96 bins, of a multiple of 28 days."""
    width = aggregates.bin_width_ms(2**61)
    assert width % (28 * 86_400_000) == 0
    assert 2**61 / width <= 96


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
