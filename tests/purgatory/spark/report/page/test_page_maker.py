"""The page of a report: complete in itself, well-formed, escaped, with a text for every chart."""

import csv
import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from purgatory.spark.report.content import Bin, CurvePoint, Kind, KindSummary, Report, Suggestion
from purgatory.spark.report.page.page_maker import make_page
from purgatory.spark.report.terminal import print_report
from tests.testing.reports import ALL, HOSTILE, report, summary


@pytest.fixture(scope="module")
def page():
    """The page of a report with two kinds."""
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
        if tag not in {"meta", "br", "input"}:
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
    assert page.index("What to do") < page.index("<dl") < page.index("<figure")
    assert page[first:].startswith('<section class="todo"><h2>What to do</h2>')
    assert "Change the timeouts of 2 of 2 kinds." in page
    # An average of all waits would count the timeouts of those that expired.
    assert "average wait with the timeouts now" in page
    assert "restricted means" in page


def test_every_plot_has_words_data_and_two_sizes(page):
    """Each figure has a text of its own, its data, and one drawing for each width."""
    reader = Reader(page)
    figures = reader.all("figure")
    labels = [div["aria-label"] for div in reader.all("div") if div.get("role") == "img"]
    assert len(figures) == len(labels) == 12
    assert len(set(labels)) == len(labels)
    assert min(map(len, labels)) > 40
    classes = [svg["class"] for svg in reader.all("svg")]
    assert classes == ["wide", "narrow"] * len(figures)
    assert all(svg["viewbox"].split()[:2] == ["0", "0"] for svg in reader.all("svg"))
    links = reader.all("a")
    assert len(links) == len(figures) + len(reader.all("table")) - 1  # hot keys of kinds
    for link in links:
        data = b64decode(link["href"].partition("base64,")[2]).decode()
        head, *rows = csv.reader(data.splitlines())
        assert rows
        assert {len(row) for row in rows} == {len(head)}
        assert link["download"].endswith(".csv")


def test_drawings_are_coloured_by_the_page(page):
    """Drawings use only classes that the style sheet knows, and that has all colours twice."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)
        assert not re.search(r"#[0-9a-f]{6}\b", drawing)
        for css in set(" ".join(re.findall(r'class="([^"]*)"', drawing)).split()):
            assert re.search(rf"\.{css}\b", style) or css == "d0", css
    used = set(re.findall(r"var\((--[\w-]+)\)", style))
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for variables in (light, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", variables))


def test_one_kind_is_shown_once():
    """With one kind, all kinds together would say the same: that row and curve are left out."""
    page = make_page(report("only"), "journal")
    assert "all kinds" not in page
    assert page.count('<th scope="row">only</th>') == 3
    assert 'type="checkbox"' not in page


def test_names_from_the_data_are_text():
    """Names of kinds, keys and the journal are escaped."""
    page = make_page(report(HOSTILE, "_b"), HOSTILE, [HOSTILE])
    reader = Reader(page)
    assert not reader.all("script")
    assert "\x00" not in page
    shown = '<script>alert("1")</script> & $x^2$ [red]--> \ufffd 日本 \ufffd'
    assert sum(shown in text for text in reader.text) >= 3
    assert any(text.strip("\u200b\n") == "_b" for text in reader.text)


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
    assert text.count("10\N{NO-BREAK SPACE}ms") >= 2


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
    for figure in ("328,521", "76 %", "24 %", "2.55 h", "5.75 h", "6.6 h", "10.7 h"):
        assert text.count(figure) == len(kinds)
    assert text.count("1.23 s") == len(kinds) * busy
    assert ("cancelled" in text) == busy
