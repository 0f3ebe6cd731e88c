"""The page of a report: complete in itself, well-formed, escaped, with a text for every chart."""

import re
from io import StringIO

import pytest
from rich.console import Console

from purgatory.spark.report.content import Bin, CurvePoint, Kind, KindSummary, Report, Suggestion
from purgatory.spark.report.page.page_maker import make_page
from purgatory.spark.report.terminal import print_report
from tests.testing.pages import Reader
from tests.testing.reports import ALL, report, summary


def test_page_needs_nothing_else(page):
    """The page has no script, image or address; its links hold the data that they save."""
    reader = Reader(page)
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "image"}
    assert all(link["href"].startswith("data:text/csv;") for link in reader.all("a"))
    addresses = set(re.findall(r"https?://[^\"'<\s]*", page))
    assert not addresses
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 200_000


def test_the_page_begins_with_what_to_do(page):
    """The first section is what to do; the first figures follow it."""
    first = page.index("<section")
    assert page.index("What stands out") < page.index("<dl") < page.index("<figure")
    assert page[first:].startswith('<section class="todo"><h2>What stands out</h2>')
    assert "Change the timeouts of 2 of 2 kinds." in page
    # An average of all waits would count the timeouts of those that expired.
    assert "average wait with the timeouts now" in page
    assert "restricted means" in page


def test_one_kind_is_shown_once():
    """With one kind, all kinds together would say the same: that row and curve are left out."""
    page = make_page(report("only"), "journal")
    assert "all kinds" not in page
    assert page.count('<th scope="row">only</th>') == 3
    assert 'type="checkbox"' not in page


NOTHING_DONE = KindSummary(
    ALL, 1, 1, 0, 0, 1, 0, (0, 0, 0), CurvePoint(ALL, 0, 0.0, 0.0, 1), (), (0,) * 4
)


@pytest.mark.parametrize(
    "odd",
    [
        report("", hot_keys=(), wheels=(), week=(), changes=(), findings=()),
        report("", first_ms=-(2**61), last_ms=2**61, bin_ms=2**57),
        report("", exact=False),
        report(
            None, summaries=tuple(summary(Kind(t, None), None, (0,) * 4) for t in (True, False))
        ),
        report(*map(str, range(20)), kinds=3000),
        report("", suggestions=(Suggestion(ALL, 0.9, None),)),
        report("", bins=(Bin(Kind(False, ""), 0, 1, 0, 0, 0),), bin_ms=1),
        report(
            "",
            summaries=(NOTHING_DONE, NOTHING_DONE._replace(kind=Kind(False, ""))),
            curves={kind: [CurvePoint(kind, 0, 0.0, 0.0, 3)] for kind in (ALL, Kind(False, ""))},
            suggestions=(Suggestion(ALL, 0.9, None),),
            findings=(),
        ),
    ],
)
def test_odd_journals_have_a_page(odd):
    """Missing and extraordinary values break neither page nor terminal."""
    Reader(make_page(odd, "journal"))
    out = StringIO()
    print_report(odd, Console(file=out, width=160))
    assert "Timeouts suggested" in out.getvalue()


def test_empty_journal():
    """Page and terminal say that there are no outcomes."""
    empty = Report(0, 0, 0, 0, exact=True, bin_ms=1)
    out = StringIO()
    print_report(empty, Console(file=out))
    assert "no outcomes" in out.getvalue()
    assert "no outcomes" in make_page(empty, "journal")
