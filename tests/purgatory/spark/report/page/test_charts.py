"""The charts of a page."""

import csv
from base64 import b64decode

from tests.testing.pages import Reader


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
