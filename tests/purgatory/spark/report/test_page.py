"""The page of a report: complete in itself, well-formed, escaped, with a text for every chart."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from purgatory.spark.report.page import make_page
from purgatory.spark.report.report import Report
from purgatory.spark.report.rows import (
    Bin,
    CurvePoint,
    HotKey,
    Kind,
    KindSummary,
    Suggestion,
    WheelRow,
)
from purgatory.spark.report.terminal import print_report

ALL = Kind(True, None)
HOSTILE = '<script>alert("1")</script> & $x^2$ [red]--> \x00 日本 \N{RIGHT-TO-LEFT OVERRIDE}'


def summary(kind, submitted=12, lateness=(0, 0, 0, 3)):
    """Make a summary of ten operations of a kind."""
    return KindSummary(
        kind, submitted, 10, 7, 2, 1, 123.4, (5, 9, 90, 95), (5, 8, 60, 60), tuple(lateness)
    )


def report(*names, **changes):
    """Make a report with rows of every table for each kind."""
    kinds = [ALL, *(Kind(False, name) for name in names)]
    points = [
        CurvePoint(k, t, s, m, 9) for k in kinds for t, s, m in [(1, 0.1, 1.0), (9, 0.7, 5.0)]
    ]
    rows = {
        "operations": 10 * len(names),
        "kinds": len(names),
        "first_ms": 1_700_000_000_000,
        "last_ms": 1_700_000_360_000,
        "exact": True,
        "bin_ms": 5000,
        "summaries": tuple(summary(k) for k in kinds),
        "bins": tuple(Bin(k, 1_700_000_000_000 + n, 2, 1, 0) for k in kinds[1:] for n in (0, 9000)),
        "hot_keys": tuple(HotKey(k, key, 5, 3) for k in kinds for key in (HOSTILE, "plain")),
        "suggestions": tuple(
            Suggestion(k, share, point)
            for k, share, point in zip(
                [*kinds, *kinds],
                [0.5] * len(kinds) + [0.9] * len(kinds),
                [*points[1::2], *[None] * 9],
                strict=False,
            )
        ),
        "curves": tuple(points),
        "wheels": tuple(
            WheelRow(t, s, 3, 40.5, 3, 5e-5, 0.2, 7, 12.5, 0.5, t - 1)
            for t in (1, 10)
            for s in (20, 64)
        ),
    }
    return Report(**(rows | changes))


@pytest.fixture(scope="module")
def page():
    """The page of a report with two kinds; drawing it takes seconds."""
    return make_page(report("a", "b"), "journal")


class Reader(HTMLParser):
    """Checks that elements nest, and keeps what a test looks for."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


def test_page_needs_nothing_else(page):
    """The page has no script, link or address: it is readable without a network."""
    reader = Reader(page)
    tags = {tag for tag, _ in reader.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "image", "a"}
    addresses = set(re.findall(r"https?://[^\"'<\s]*", page))
    assert not addresses
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert len(page) < 400_000


def test_every_plot_has_words_and_two_sizes(page):
    """Each figure has a text of its own, and one drawing for each width."""
    reader = Reader(page)
    figures = reader.all("figure")
    labels = [figure["aria-label"] for figure in figures]
    assert len(figures) == 9
    assert all(figure["role"] == "img" for figure in figures)
    assert len(set(labels)) == len(labels)
    assert min(map(len, labels)) > 40
    classes = [svg["class"] for svg in reader.all("svg")]
    assert classes == ["wide", "narrow"] * len(figures)
    assert all(svg["viewbox"].split()[:2] == ["0", "0"] for svg in reader.all("svg"))


def test_drawings_are_coloured_by_the_page(page):
    """Drawings use only variables that the style sheet has for light and dark pages."""
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    for drawing in drawings:
        ET.fromstring(drawing)
        assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"(url\(|href=\")#\w+", "", drawing))
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    root, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    for variables in (root, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", variables))


def test_ids_are_not_shared(page):
    """Ids are unique on the page."""
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_names_from_the_data_are_text():
    """Names of kinds, keys and the journal are escaped."""
    page = make_page(report(HOSTILE, "_b"), HOSTILE, [HOSTILE])
    reader = Reader(page)
    assert not reader.all("script")
    assert "\x00" not in page
    shown = '<script>alert("1")</script> & $x^2$ [red]--> \ufffd 日本 \ufffd'
    assert sum(shown in text for text in reader.text) >= 3
    assert any(text.strip("\u200b\n") == "_b" for text in reader.text)


NOTHING_DONE = KindSummary(ALL, 1, 1, 0, 1, 0, 0.0, (0,) * 4, (), (0,) * 4)


@pytest.mark.parametrize(
    "odd",
    [
        report("", hot_keys=()),
        report("", first_ms=-(2**61), last_ms=2**61, bin_ms=2**57),
        report("", exact=False),
        report(
            None, summaries=tuple(summary(Kind(t, None), None, (0,) * 4) for t in (True, False))
        ),
        report(*map(str, range(20)), kinds=3000),
        report("", suggestions=(Suggestion(ALL, 0.9, None),)),
        report("", bins=(Bin(Kind(False, ""), 0, 1, 0, 0),), bin_ms=1),
        report(
            "",
            summaries=(NOTHING_DONE, NOTHING_DONE._replace(kind=Kind(False, ""))),
            curves=tuple(CurvePoint(Kind(t, None if t else ""), 0, 0.0, 0.0, 3) for t in (1, 0)),
        ),
    ],
)
def test_odd_journals_have_a_page(odd):
    """Missing and extraordinary values break neither page nor terminal."""
    Reader(make_page(odd, "journal"))
    print_report(odd, Console(file=StringIO(), width=160))


def test_empty_journal():
    """Page and terminal say that there are no outcomes."""
    empty = Report(0, 0, 0, 0, exact=True, bin_ms=1)
    out = StringIO()
    print_report(empty, Console(file=out))
    assert "no outcomes" in out.getvalue()
    assert "no outcomes" in make_page(empty, "journal")


def test_terminal_shows_names_as_they_are():
    """Brackets in a name are no markup; the tables have a row for each kind, tick and size."""
    out = StringIO()
    print_report(report("[bold]", "b"), Console(file=out, width=200))
    text = out.getvalue()
    assert "[bold]" in text
    assert "not seen" in text
    assert text.count("10 ms") >= 2


@pytest.mark.parametrize("busy", [True, False])
def test_terminal_of_eighty_columns_cuts_no_figure(busy):
    """Names are folded instead; columns of zeros only are left out."""
    kinds = [ALL, Kind(False, "a name of so many words that it needs lines of its own")]
    waits = (9_180_000, 20_700_000, 23_760_000, 38_520_000)
    late = (1_234 if busy else 0,) * len(waits)
    rows = tuple(
        KindSummary(k, 328_521, 328_521, 249_716, 78_805, 5 * busy, 1.0, waits, waits, late)
        for k in kinds
    )
    out = StringIO()
    print_report(report("b", summaries=rows), Console(file=out, width=80))
    text = out.getvalue()
    for figure in ("328,521", "76 %", "24 %", "2.55 h", "5.75 h", "6.6 h", "10.7 h"):
        assert text.count(figure) == len(kinds)
    assert text.count("1.23 s") == len(kinds) * busy
    assert ("cancelled" in text) == busy
