"""The screen of `purgatory top`."""

import pytest
from msgspec import structs
from rich.console import Console

from purgatory.cli.screen import Top, blocks, bytes_shown, figure_shown
from purgatory.service.job_messages import JOB_STATES, KindOverview, Overview

FIGURES = dict.fromkeys(
    ("pending", "unacknowledged", "connections", "messages", "submitted", "completed",
     "expired", "cancelled", "refused", "commits", "commit_seconds", "commit_failures",
     "store_backlog", "store_bytes", "uptime_seconds"), 0.0)  # fmt: skip


def test_rates():
    """A rate is the change since the last sample by the seconds between, never negative."""
    top = Top("tcp://x")
    top.add(FIGURES | {"uptime_seconds": 10, "expired": 5})
    top.add(FIGURES | {"uptime_seconds": 12, "expired": 45})
    assert top._rates["expired"][-1] == 20
    top.add(FIGURES | {"uptime_seconds": 1, "expired": 1})  # started again
    top.add(FIGURES | {"uptime_seconds": 2, "expired": 1})
    assert top._rates["expired"][-1] == 0
    assert list(top._rates["expired"])[-3:] == [0, 20, 0]


def shown(*samples):
    """Return what the screen shows after some samples."""
    top = Top("tcp://x")
    for sample in samples:
        top.add(FIGURES | sample)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(top)
    return capture.get().splitlines()


def test_the_first_lines_answer():
    """Is it well, what is due, what failed."""
    well, due, wrong = shown({"pending": 1200, "held": 3, "failed": 2, "commit_failures": 4})[:3]
    assert well.startswith("purgatory at tcp://x, up 0:00:00, ready")
    assert due.rstrip() == "due:   1,200 pending, 3 held events"
    assert wrong.rstrip() == "wrong: 2 failed, 0 refused, 4 failed commits, 0 unread outcomes"


def test_one_of_each():
    """One is no plural."""
    figures = {"pending": 1, "held": 1, "failed": 1, "commit_failures": 1, "unacknowledged": 1}
    _, due, wrong = shown(figures)[:3]
    assert due.rstrip() == "due:   1 pending, 1 held event"
    assert wrong.rstrip() == "wrong: 1 failed, 0 refused, 1 failed commit, 1 unread outcome"


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"failing_seconds": 12.0}, "NOT READY: commits have failed for 12 s"),
        ({"oldest_due_age_seconds": 70.0}, "NOT READY: the oldest due outcome is 70 s late"),
        ({}, "NOT READY: its disk hangs"),
    ],
)
def test_a_server_that_is_not_ready(figures, told):
    """The first line says why."""
    assert shown({"ready": 0} | figures)[0].rstrip().endswith(told)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0.0 s"), (0.42, "0.4 s"), (9.96, "10.0 s"), (59, "59 s"), (150, "2.5 min"),
     (5400, "1.5 h"), (86400 * 12.25, "12.2 d"), (86400 * 365, "365 d")],
)  # fmt: skip
def test_when_something_is_due_next(seconds, told):
    assert shown({"next_due_seconds": seconds})[1].rstrip().endswith(f"the next in {told}")


def test_columns_of_failed_and_held():
    """They have a rate and a figure, as the others have."""
    lines = shown({}, {"uptime_seconds": 2.0, "failed": 10})
    assert any("failed/s" in line and " 5 " in line for line in lines)
    assert any("0 held events" in line for line in lines)


def test_blocks():
    """The highest value is a full block; the lowest is not empty."""
    assert blocks([0, 1, 4, 8]) == "▁▁▄█"
    assert blocks([0, 0]) == "▁▁"
    assert blocks([]) == ""


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (300 * 2**20, "300 MiB"),
     (2**60, "1048576 TiB")],
)  # fmt: skip
def test_bytes(count, shown):
    """In the unit that a person would choose."""
    assert bytes_shown(count) == shown


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("memory_bytes", 1263825715, "1.2 GiB"),
        ("max_memory_bytes", 0, "any"),
        ("uptime_seconds", 7200.0, "2 h"),
        ("next_due_seconds", -1, "none"),
        ("submitted", 1263825715, "1,263,825,715"),
    ],
)
def test_figures_for_people(name, figure, shown):
    """Units are those of the name; no figure is in powers of ten."""
    assert figure_shown(name, figure) == shown


def kind(name, workers=1, **counts):
    """Return the jobs of a kind."""
    return KindOverview(name, tuple(counts.get(state, 0) for state in JOB_STATES), 0, workers)


STUCK = Overview(1, [kind("mail", dead=110, done=5), kind("mial", workers=0, ready=2501)], {})


def test_troubles_come_first():
    """Right after the head, before figures; also what other servers would give."""
    top = Top("tcp://x")
    figures = {"ready": 0, "failing_seconds": 130.0, "standbys": 0, "replicated": 0}
    top.add(FIGURES | figures, structs.replace(STUCK, commit_error="disk is full"))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(top)
    lines = [line.strip() for line in capture.get().splitlines()]
    assert lines[0] == "NOT READY: commits have failed for 2 min: disk is full"
    assert lines[2:6] == [
        "! 2,501 jobs of kind “mial” wait, and no worker takes this kind",
        "! 110 jobs of kind “mail” are dead",
        "! No standby: if this server ends, nothing answers",
        "! Not replicated: a loss of the database loses what was acknowledged",
    ]


def test_nothing_is_green_while_something_is_wrong():
    """Not the server's readiness, either; stuck and dead jobs are red."""
    top = Top("tcp://x")
    for overview, colour in ((Overview(1, [], {}), "green"), (STUCK, "yellow")):
        top.add(FIGURES, overview)
        console = Console(width=100)
        spans = [segment for segment in console.render(top) if segment.style]
        [ready] = [each for each in spans if each.text == "ready" and not each.style.bold]
        assert ready.style.color.name == colour
    red = [each.text.strip() for each in spans if each.style.bold and each.style.color]
    assert red[-3:] == ["110 dead jobs", "2,501", "110"]


def test_only_what_happens_has_a_colour():
    """Nothing is red while nothing fails; what expires is no bad news."""
    top = Top("tcp://x")
    for sample in ({}, {"uptime_seconds": 1.0, "expired": 5, "completed": 5}):
        top.add(FIGURES | sample)
    spans = [each for each in Console(width=100).render(top) if set(each.text) & set("▁█")]
    looks = [each.style.color and each.style.color.name for each in spans]
    assert looks == [None, "blue", "bright_black", None, None, None]


def test_a_wide_terminal():
    """A kind and its figures, and the tiles, stay side by side."""
    top = Top("tcp://x")
    top.add(FIGURES, STUCK)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(top)
    assert max(map(len, map(str.rstrip, capture.get().splitlines()))) <= 100


def test_keys_change_the_table():
    """Kinds in several orders, and tables of jobs; other keys do nothing."""
    top = Top("tcp://x")
    top.has_keys = True

    def text(rows=()):
        top.add(FIGURES, STUCK, rows)
        console = Console(width=100)
        with console.capture() as capture:
            console.print(top)
        return capture.get()

    assert "by trouble" in text()
    assert top.press("s")
    assert "by ready" in text()
    assert not top.press("y")
    assert top.press("d")
    found = text([("invoice-17", "mail", "2 min ago", "3", "ValueError: no")])
    assert "dead jobs, the newest first" in found
    assert "invoice-17" in found
    assert "running" not in found.partition("keys:")[0]
    assert "none" in text()
    assert top.press("k")
    assert "by ready" in text()


def test_jobs_by_kind():
    """Kinds in trouble are first, as in the sentences above; a few kinds are shown."""
    top = Top("tcp://x")
    kinds = [kind(f"kind {n}", done=n) for n in range(9)] + STUCK.kinds
    top.add(FIGURES, Overview(1, kinds, {}))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(top)
    lines = [line.strip(" │") for line in capture.get().splitlines()[5:]]
    assert lines[1].split() == [
        "jobs",
        "ready",
        "running",
        "retrying",
        "dead",
        "scheduled",
        "done",
        "cancelled",
    ]
    assert lines[2].split()[:2] == ["mial", "2,501"]
    assert lines[3].split() == ["mail", "0", "0", "0", "110", "0", "5", "0"]
    assert lines[10] == "and 3 other kinds"
    top.add(FIGURES, Overview(1, kinds[:9], {}))
    with console.capture() as capture:
        console.print(top)
    assert "and 1 other kind " in capture.get()
