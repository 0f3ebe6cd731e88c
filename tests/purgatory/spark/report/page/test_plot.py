"""Drawings, and the style sheet that colours them."""

import random
import re
import xml.etree.ElementTree as ET
from itertools import permutations

import pytest

from purgatory.spark.report.page.plot import (
    PERCENTS,
    Plot,
    Scale,
    count_scale,
    duration_scale,
    place_labels,
    text_width,
)


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


@pytest.mark.parametrize(("low", "high", "crossed"), [(60, 746, 4), (600, 746, 0), (60, 200, 0)])
def test_labels_of_lines_are_readable(low, high, crossed):
    """No label lies on another, leaves the drawing, or, if possible, is crossed by a line."""
    rng = random.Random(1)
    for _ in range(200):
        marks = [(rng.uniform(low, high), "95.1 %: 6.38 h, wait 2.4 h", "c0") for _ in range(6)]
        placed = place_labels(marks, 760)
        assert sorted((label.x, label.text, label.css) for label in placed) == sorted(marks)
        assert all(label.left >= 0 and label.right <= 760 for label in placed)
        pairs = list(permutations(placed, 2))
        assert not any(one.overlaps(other) for one, other in pairs)
        assert sum(one.is_crossed(other) for one, other in pairs) <= crossed


def test_a_chart_has_room_for_its_labels():
    """The plot begins below the last of them."""
    x, marks = Scale(0, 100, []), [(50 + n, "99.91 %: 59.9 s", "candidate") for n in range(6)]
    plot = Plot(True, 330, x, PERCENTS, heads=("time", "waits"), marks=marks)
    plot.markers()
    found = [float(y) for y in re.findall(r'y="([\d.]+)" class="[a-z ]*candidate"', plot.svg(""))]
    assert len(found) == 6
    assert max(found) < plot.top - 16


@pytest.mark.parametrize("narrow", [False, True])
def test_texts_of_ticks_are_whole(narrow):
    """The first and the last are moved into the drawing; a day stands above its time."""
    x = Scale(0, 100, [(0, "2026-11-23\n00:00"), (100, "2026-11-24\n00:00")])
    plot = Plot(narrow, 200, x, count_scale(9))
    places = {
        text: float(at) for at, text in re.findall(r'x="([\d.]+)"[^>]*>([^<]+)<', plot.svg(""))
    }
    first, last = places["2026-11-23"], places["2026-11-24"]
    half = text_width("2026-11-23") / 2
    assert half <= first
    assert last <= (350 if narrow else 760) - half
    assert places["00:00"] == last


def test_the_smallest_value_is_not_at_the_edge():
    """The name of a row is there."""
    assert duration_scale([400, 60_000], narrow=False).place(400) > 0.01
