"""The charts of a page."""

import csv
from base64 import b64decode
from functools import partial

from purgatory.spark.report.page.charts import outcome_shares, quantiles
from tests.testing.pages import Reader
from tests.testing.reports import report


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


def test_kinds_without_room_are_told():
    """The title says that a chart has the largest kinds alone."""
    few, many = report("a", "b"), report(*[f"kind-{n}" for n in range(12)])
    waits = partial(quantiles, title="Waits", values=lambda row: row.completed_waited_ms)
    assert [outcome_shares(few).title, waits(few).title] == ["Outcomes by kind", "Waits"]
    told = [outcome_shares(many).title, waits(many).title]
    assert told == [f"{title}: the 11 largest kinds" for title in ("Outcomes by kind", "Waits")]
