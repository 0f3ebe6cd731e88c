"""The page of the benchmarks: every figure is in a table and in a plot that is described."""

import itertools
import json
import subprocess
import sys
from html.parser import HTMLParser

import draw
import pytest

from purgatory.spark.report import formatting

PEERS = list(draw.NAMES)
SIZES = [10, 1000]


def timer_figures():
    """Return figures as bench_timer.py keeps them, no two the same."""
    number = itertools.count(1001)
    costs = {
        kind: {peer: [float(next(number)) for _ in SIZES] for peer in PEERS}
        for kind in ("schedule", "cancel", "drain", "bytes", "collection")
    }
    costs["drain"]["sched"][1] = None
    curve = [place / 10 - 2 for place in range(201)]
    return {
        "repeats": 3,
        "sizes": SIZES,
        "costs": costs,
        "lateness": {
            peer: {"quantiles": [late + n for late in curve], "early": n, "count": 500}
            for n, peer in enumerate(PEERS)
        },
        "stalls": {
            peer: [
                {"longest": float(next(number)), "calls": [0, next(number), 7, 0]} for _ in SIZES
            ]
            for peer in ("timingwheel", "netty", "jdk")
        },
        "stall_edges": [0.001, 0.1, 10.0],
    }


def load_figures():
    """Return figures as bench_purgatory_load.py keeps them."""
    step = {"cpu": 1.25, "load_cpu": 0.31, "expired": 0.079, "behind_ms": 12.5}
    rates = (25_000, 50_000)
    steps = [{"target": rate, "actual": rate - 11.0, **step} for rate in rates]
    return {"repeats": 3, "seconds": 5.0, "steps": {"low": steps, "high": steps[:1]}}


def kept(subject, figures, taken="2026-01-01T00:00:00+00:00"):
    """Write a file as harness.keep does."""
    return {
        "subject": subject,
        "machine": "Python 3, <two> cores",
        "compiled": True,
        "taken": taken,
        "figures": figures,
    }


class Page(HTMLParser):
    """Collects the cells of tables, the labels of plots, and the addresses of a page."""

    def __init__(self, page):
        super().__init__()
        self.cells, self.labels, self.fetched, self.plots = [], [], [], 0
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self._in_cell = tag in {"td", "th"}
        self.plots += tag == "svg"
        if found.get("role") == "img":
            self.labels.append(found["aria-label"])
        urls = [found.get("src"), found.get("href")]
        self.fetched += [url for url in urls if url]

    def handle_endtag(self, tag):
        self._in_cell = False

    def handle_data(self, data):
        if self._in_cell:
            self.cells.append(data)


@pytest.fixture(scope="module")
def page():
    """A page of both subjects."""
    return draw.make_page([kept("timer", timer_figures()), kept("load", load_figures())])


class TestPage:
    """All figures are on the page, in tables and in plots."""

    def test_figures_of_the_timer(self, page):
        """Every cost of every contestant at every size is in a table; a missing one is a dash."""
        cells = Page(page).cells
        figures = timer_figures()
        for by_peer in figures["costs"].values():
            for value in itertools.chain.from_iterable(by_peer.values()):
                assert (formatting.NOTHING if value is None else formatting.number(value)) in cells
        for stall in itertools.chain.from_iterable(figures["stalls"].values()):
            assert formatting.number(stall["longest"]) in cells
            assert f"{max(stall['calls']):,}" in cells
        for peer in PEERS:
            assert cells.count(draw.NAMES[peer]) >= 6
            assert f"{figures['lateness'][peer]['early']} of 500" in cells

    def test_marks_of_lateness(self, page):
        """The median and the 99th percentile are those of the curve."""
        cells = Page(page).cells
        row = cells[cells.index("0 of 500") - 6 : cells.index("0 of 500")]
        assert row == ["timingwheel", "-2", "8", "16", "17.8", "18"]

    def test_figures_of_the_load(self, page):
        """Every rate has a row."""
        cells = Page(page).cells
        for row in ("low, 25,000", "low, 50,000", "high, 25,000"):
            assert row in cells
        assert {"24,989", "49,989", "1.25", "0.31", "7.9 %", "12.5"} <= set(cells)

    def test_words_for_every_plot(self, page):
        """Each plot is drawn for two widths, and has a description."""
        read = Page(page)
        assert read.plots == 2 * len(read.labels) == 2 * (3 + 1 + len(SIZES) + 2)
        for label in read.labels[:4]:
            assert all(name in label for name in draw.NAMES.values())

    def test_needs_nothing_else(self, page):
        """The page fetches nothing, and escapes text from the files."""
        assert Page(page).fetched == []
        assert "<two>" not in page
        assert "&lt;two&gt;" in page

    def test_newest_counts(self):
        """Of two files about one subject, the newer one is shown."""
        old, new = load_figures(), load_figures()
        old["steps"]["low"][0]["actual"] = 11_111.0
        subjects = [kept("load", new, "2026-02-01"), kept("load", old, "2026-01-01")]
        assert "11,111" not in draw.make_page(subjects)


def test_command(tmp_path):
    """The command reads the kept files, and prints where the page is."""
    path = tmp_path / "timer.json"
    path.write_text(json.dumps(kept("timer", timer_figures())), encoding="utf-8")
    command = [sys.executable, draw.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path / "index.html") in done.stdout
    assert "timingwheel" in (tmp_path / "index.html").read_text(encoding="utf-8")
