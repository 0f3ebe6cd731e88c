"""The report as a whole."""

from collections import Counter

import pytest

from purgatory.spark.report.content import Kind
from purgatory.spark.report.report import ReportOptions, make_report
from purgatory.spark.report.wheel_tuning import wheel_sizes
from purgatory.trace import Operation
from tests.testing.journals import (
    make_outcome,
    operations_frame,
    outcomes_frame,
    random_outcomes,
    report_of,
)

ALL, OTHERS = Kind(True, None), Kind(False, None)
FEW = wheel_sizes([10], [20])


def test_report_of_a_journal(spark):
    """All tables are there, labelled by kind; the small kinds are put together."""
    rows = random_outcomes(5, 200)
    operations = [
        Operation(r.op_id, r.kind, r.submitted_ms, r.deadline_ms - r.submitted_ms, ("k1", "k2"))
        for r in rows
    ]
    operations.append(Operation("pending", "rare", 5, 5, ("k1",)))
    steps = []
    report = make_report(
        outcomes_frame(spark, rows),
        operations_frame(spark, operations),
        ReportOptions(shares=[0.2, 1.0], wheels=FEW, max_kinds=2, max_keys=1),
        steps.append,
    )
    counts = Counter(r.kind for r in rows)
    large = [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][:2]
    named = [Kind(False, name) for name in large]
    others = len(rows) - counts[large[0]] - counts[large[1]]

    assert (report.operations, report.kinds, report.exact) == (200, 4, True)
    assert report.first_ms == min(r.submitted_ms for r in rows)
    assert report.last_ms == max(r.at_ms for r in rows)
    assert {s.kind: s.operations for s in report.summaries} == {
        ALL: 200,
        OTHERS: others,
        named[0]: counts[large[0]],
        named[1]: counts[large[1]],
    }
    assert report.summaries[0].kind == ALL
    assert report.summaries[0].submitted == 201
    assert {s.kind: s.submitted for s in report.summaries}[OTHERS] == others + 1
    assert sum(sum(b[2:]) for b in report.bins) == 200
    assert all(b.start_ms % report.bin_ms == 0 for b in report.bins)
    assert [(k.key, k.watched) for k in report.hot_keys if k.kind == ALL] == [("k1", 201)]
    assert [s.wanted for s in report.suggestions] == [0.2, 1.0] * 4
    assert list(report.curves) == [s.kind for s in report.summaries]
    assert sum(hour.operations for hour in report.week) == 200
    assert_summaries(report.summaries, rows, named)
    assert [(w.tick_ms, w.wheel_size) for w in report.wheels] == [(10, 20)]
    assert steps == ["reading the rows", "waits, timeouts and times", "hot keys", "wheels"]


def assert_summaries(summaries, rows, named):
    """Compare summaries with those of the rows, computed in plain Python."""
    folded = [r if Kind(False, r.kind) in named else r._replace(kind=None) for r in rows]
    expected = {s.kind: s for s in report_of(folded).summaries}
    for found in summaries:
        wanted = expected[found.kind]._replace(submitted=found.submitted, now=found.now)
        assert found == wanted
        assert found.now[1:] == pytest.approx(expected[found.kind].now[1:])


def test_against_an_earlier_period(spark):
    """The changes pair the kinds of both periods; the earlier report needs no wheels."""
    before = make_report(
        outcomes_frame(spark, [make_outcome(n, 0, 9, 3, kind="a") for n in range(3)]),
        options=ReportOptions(wheels=()),
    )
    assert before.wheels == ()
    now = [make_outcome(n, 0, 9, 6, kind=kind) for n, kind in enumerate("aab")]
    report = make_report(
        outcomes_frame(spark, now), options=ReportOptions(wheels=FEW), against=before
    )
    assert [(c.kind.name, c.waits_ms[0], c.earlier_waits_ms[0]) for c in report.changes] == [
        (None, 6, 3),
        ("a", 6, 3),
        ("b", 6, None),
    ]


def test_without_operations(spark):
    """Without operations their numbers are None; large journals are approximated."""
    rows = [make_outcome(n, 0, 20_000, 10_001 + n, key="k") for n in range(8)] + [
        make_outcome(9, 0, 5)
    ]
    report = make_report(
        outcomes_frame(spark, rows), options=ReportOptions(shares=[0.8], wheels=FEW, exact_rows=8)
    )
    assert not report.exact
    assert {s.submitted for s in report.summaries} == {None}
    assert [(k.watched, k.completed) for k in report.hot_keys] == [(None, 8), (None, 8)]
    assert [s.point.timeout_ms for s in report.suggestions] == [10_010, 10_010]


def test_empty(spark):
    """A journal without outcomes has an empty report."""
    report = make_report(outcomes_frame(spark, []))
    assert (report.operations, report.summaries, report.wheels) == (0, (), ())


@pytest.mark.parametrize(
    ("bad", "named"), [({"shares": [2]}, "share is 2"), ({"wheels": FEW * 101}, "101 wheels")]
)
def test_bad_options(bad, named):
    """An impossible option raises before any work."""
    with pytest.raises(ValueError, match=named):
        ReportOptions(**bad)
