"""A report in the terminal."""

from io import StringIO

import pytest
from rich.console import Console

from purgatory.spark.report.content import Kind
from purgatory.spark.report.tables import without_empty_columns
from purgatory.spark.report.terminal import print_report
from tests.testing.job_journals import job_report_of, make_job
from tests.testing.reports import ALL, report, summary


def test_terminal_shows_names_as_they_are():
    """Brackets in a name are no markup; the tables have a row for each kind, tick and size."""
    out = StringIO()
    print_report(report("[bold]", "b"), Console(file=out, width=200))
    text = out.getvalue()
    assert "[bold]" in text
    assert text.count("10\N{NO-BREAK SPACE}ms") >= 2


def test_a_command_is_one_line():
    """In a narrow terminal, too: a copy of two lines would be two commands."""
    jobs = job_report_of([make_job(n, "x " * 60, "dead", error="E") for n in range(10)])
    out = StringIO()
    print_report(report("b", jobs=jobs), Console(file=out, width=40))
    assert f"\n  purgatory jobs retry --kind='{'x ' * 60}'\n" in out.getvalue()


def test_all_columns_leave_room_for_the_names():
    """A table of all columns is wider than the terminal: rich left out the kinds there."""
    rows = tuple(
        summary(k)._replace(
            submitted=12_480, operations=12_345, completed=9_000, failed=534, expired=2_483,
            cancelled=328, completed_waited_ms=(26, 109, 1140, 1857), lateness_ms=(1_234,) * 4,
        )
        for k in (ALL, Kind(False, "payment"), Kind(False, "parcel"))
    )  # fmt: skip
    out = StringIO()
    print_report(report("b", "c", summaries=rows, findings=()), Console(file=out, width=80))
    tables = out.getvalue().partition("Operations")[2].partition("Hottest keys")[0]
    assert all(tables.count(text) == 1 for text in ("payment", "parcel"))
    assert (tables.count("1.86 s"), tables.count("1.23 s")) == (3, 3)
    assert "\N{HORIZONTAL ELLIPSIS}" not in tables


@pytest.mark.parametrize("busy", [True, False])
def test_terminal_of_eighty_columns_cuts_no_figure(busy):
    """Names are folded instead; columns of zeros only are left out."""
    names = ("a name of so many words that it needs lines of its own", "b")
    kinds = [ALL, *(Kind(False, name) for name in names)]
    waits = (9_180_000, 20_700_000, 23_760_000, 38_520_000)
    late = (1_234 if busy else 0,) * len(waits)
    rows = tuple(
        summary(k)._replace(
            submitted=328_521, operations=328_521, completed=249_716, failed=0, expired=78_805,
            cancelled=5 * busy, completed_waited_ms=waits, lateness_ms=late,
        )
        for k in kinds
    )  # fmt: skip
    out = StringIO()
    print_report(report("b", "c", summaries=rows, findings=()), Console(file=out, width=80))
    text = out.getvalue()
    tables = text[text.index("Operations") :]
    for figure in ("328,521", "76 %", "24 %", "2.55 h", "5.75 h", "6.6 h", "10.7 h"):
        assert tables.count(figure) == len(kinds)
    assert text.count("1.23 s") == len(kinds) * busy
    assert ("cancelled" in text) == busy


def test_a_kind_may_be_named_as_a_figure():
    """Columns of zeros are left out, but not the names of the rows."""
    heads, rows = without_empty_columns(["kind", "ended", "failed"], [["0", "7", "0"]])
    assert (heads, rows) == (("kind", "ended"), [("0", "7")])
