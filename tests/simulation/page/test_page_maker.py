"""The page of a history: each part of the world has its lane, and nothing is taken for markup."""

import re
from xml.etree import ElementTree as ET

from tests.simulation.page.marks import lanes_of, marks_of
from tests.simulation.page.page_maker import make_page
from tests.simulation.page.timeline import SIZES, draw
from tests.simulation.simulation import Settings, simulate

HISTORY = [
    "    0.000000  server: started",
    "    0.100000  client-10: submits client-10-1 ('<b>',) need=1 timeout=100 ms",
    "    0.200000  client-9: client-9-1 is pending",
    "    0.300000  event 1 of <b>: event key=<b> value=1",
    "    0.400000  answer: 1 to event key=<b> value=1",
    "    0.500000  told: client-10-1 completed 1",
    "    0.600000  fault: disk_full",
    "    0.700000  disk: syncs",
    "    0.750000  journal: up to (3, 1, 0, 0)",
    "    0.800000  network: cuts off client-9",
    "    0.900000  nothing of a lane",
]


def test_each_part_has_its_lane():
    """Parts of the world first, then programs in the order of their numbers."""
    found = [(mark.lane, mark.kind) for mark in marks_of(HISTORY)]
    assert found == [
        ("server", "state"),
        ("client-10", "asked"),
        ("client-9", "answered"),
        ("keys", "asked"),
        ("keys", "answered"),
        ("client-10", "completed"),
        ("faults", "fault"),
        ("disk", "synced"),
        ("journal", "synced"),
        ("network", "state"),
        ("others", "state"),
    ]
    parts = ["faults", "network", "server", "disk", "journal", "keys"]
    assert lanes_of(marks_of(HISTORY)) == [*parts, "client-9", "client-10", "others"]


def test_workers_have_lanes():
    """What they are told is below them, handlers and ends are on them."""
    history = [
        "    0.0  jobs: schedules jobs-1 in 5 ms",
        "    0.1  jobs: jobs-1 is pending",
        "    0.2  worker-0: started",
        "    0.3  worker-0: leases jobs-1 attempt=1 token=7",
        "    0.4  worker-0: begins jobs-1 token=7",
        "    0.5  worker-0: raises in jobs-1",
        "    0.6  worker-0: jobs-1 failed",
        "    0.7  worker-0: returns from jobs-1",
        "    0.8  worker-0: jobs-1 completed",
        "    0.9  worker-0: jobs-1 is lost, before it was done",
    ]
    marks = marks_of(history)
    assert lanes_of(marks) == ["jobs", "worker-0"]
    kinds = [mark.kind for mark in marks]
    assert kinds[:4] == ["asked", "answered", "state", "answered"]
    assert kinds[4:] == ["handler", "handler", "failed", "handler", "completed", "answered"]
    assert "a handler begins, returns or raises" in make_page("workers", history)


def test_what_is_near_is_one_mark():
    """Its title shows the first lines, and how many more there are."""
    history = [f"    1.{n:06}  client-1: submits x" for n in range(50)] + ["  100.0  disk: syncs"]
    svg = ET.fromstring(draw(marks_of(history), "", SIZES[0]))
    titles = [title.text for title in svg.iterfind(".//g/title")]
    assert [title.splitlines()[-1] for title in titles] == ["100.0  disk: syncs", "and 38 more"]


def test_a_violation_is_marked():
    """In each drawing, and at the top, as text."""
    page = make_page("a <title>", HISTORY, "<i>broken</i>", {"steps": 5})
    assert page.count('class="mark violation"') == len(SIZES)
    assert '<p class="broken">&lt;i&gt;broken&lt;/i&gt;</p>' in page
    assert "<li>steps: 5</li>" in page
    assert "<i>" not in page
    assert "<b>" not in page


def test_an_empty_history():
    """It has a page, too."""
    assert "Every promise was kept." in make_page("empty", [])


def test_a_long_history_is_drawn_short():
    """However much happens, there are only as many marks as there is room for."""
    verdict = simulate(7, Settings(seconds=30.0, kinds=()), with_history=True)
    assert len(verdict.history) > 3000
    page = make_page("seed 7", verdict.history)
    assert len(re.findall(r'<g class="mark', page)) < 3000
    assert len(page) < 1_000_000
