"""What changed against an earlier period."""

from purgatory.spark.report.comparison import changes_in_words, compare_reports
from purgatory.spark.report.content import Advice, Change, Kind
from purgatory.spark.report.histograms import ALL_KINDS
from tests.testing.journals import make_outcome, report_of


def period(waits, kind="a"):
    """Make outcomes of one kind with a timeout of 100."""
    return [make_outcome(n, 0, 100, wait, kind=kind) for n, wait in enumerate(waits)]


def said(now, earlier):
    """Return the changes in words."""
    return changes_in_words(compare_reports(report_of(now), report_of(earlier)))


def test_more_expire_and_are_slower():
    """A change of share and wait is named with both figures."""
    earlier = period([10] * 900 + [None] * 100)
    now = period([40] * 700 + [None] * 300)
    assert said(now, earlier) == [
        Advice(
            "a: more expire, slower",
            "30 % expire, earlier 10 %. Half complete within 40 ms, earlier 10 ms.",
        )
    ]
    assert said(earlier, now)[0].what == "a: fewer expire, faster"


def test_chance_is_no_change():
    """Few operations, and small differences, are passed over."""
    assert said(period([10, None, None]), period([40, 40, None])) == []
    assert said(period([10] * 905 + [None] * 95), period([11] * 900 + [None] * 100)) == []


def test_less_than_a_percent_is_no_change():
    """Though nine times as many operations expire, which is no chance."""
    earlier = period([10] * 9_990 + [None] * 10)
    assert said(period([10] * 9_910 + [None] * 90), earlier) == []
    assert said(period([10] * 9_880 + [None] * 120), earlier)[0].what == "a: more expire"


def test_kinds_come_and_go():
    """A kind of only one period is named."""
    found = said([*period([1]), *period([1] * 3, "new")], [*period([1]), *period([1], "old")])
    assert [advice.what for advice in found] == ["new is new", "old is gone"]


def test_a_kind_that_may_be_one_of_the_small_kinds():
    """Not every kind has a row: one without is new or gone only if no small kinds are folded."""
    rows = {name: report_of(period([1], name)).summaries[1] for name in "ab"}
    small = rows["a"]._replace(kind=Kind(False, None))

    def told(now, earlier):
        a, others = Kind(False, "a"), Kind(False, None)
        pairs = [Change(a, *now, (), ()), Change(others, *earlier, (), ())]
        return [advice.what for advice in changes_in_words(pairs)]

    assert told((rows["a"], None), (None, small)) == []
    assert told((rows["a"], None), (small, None)) == ["a is new"]
    assert told((None, rows["a"]), (small, None)) == []
    assert told((None, rows["a"]), (None, small)) == ["a is gone"]


def test_pairs_of_both_periods():
    """Each kind has its summary in both periods, and its waits."""
    changes = compare_reports(report_of(period([10, 20])), report_of(period([30], "b")))
    assert [change.kind for change in changes] == [ALL_KINDS, Kind(False, "a"), Kind(False, "b")]
    assert changes[0].waits_ms == (10, 20)
    assert changes[0].earlier_waits_ms == (30, 30)
    assert (changes[1].earlier, changes[2].now) == (None, None)
