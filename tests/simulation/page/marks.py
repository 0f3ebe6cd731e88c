"""Marks: what the lines of a history say, as what a time line shows. Pure; any thread.

A line is `SECONDS  WHAT`, and most of them begin with the part of the world that they are of:
`server: started`. That is the lane in which they are drawn.
"""

import re
from dataclasses import dataclass
from typing import Final

#: Kinds of marks, in the order of the legend, and what they stand for.
KINDS: Final = {
    "fault": "a fault",
    "state": "a part of the world begins, ends or changes",
    "asked": "a request",
    "answered": "an answer",
    "synced": "a sync of the disk, or rows of the journal",
    "handler": "a handler begins, returns or raises",
    "completed": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
}
#: Lanes that are drawn above the others, if anything is in them.
FIRST_LANES: Final = ("faults", "network", "server", "disk", "journal", "keys")
_OUTCOMES: Final = ("completed", "failed", "expired", "cancelled")
_ASKED: Final = (
    *("submits ", "schedules ", "event ", "extends "),
    *("moves ", "adds ", "cancels ", "asks "),
)
_HANDLER: Final = ("begins ", "returns from ", "raises in ")
_LEASED: Final = ("leases ",)
_TOLD: Final = re.compile(r"told: (?P<program>\S+)-\d+ (?P<outcome>\w+)")
_OF_A_LANE: Final = re.compile(r"(?P<lane>[\w.-]+): ")


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of a history: when, in seconds; where, and as what, it is drawn."""

    at_s: float
    lane: str
    kind: str
    line: str


def marks_of(history: list[str]) -> list[Mark]:
    """Return a mark for each line of a history, in its order."""
    return [_mark(line) for line in history]


def lanes_of(marks: list[Mark]) -> list[str]:
    """Return the names of the lanes from top to bottom: the parts of the world, then programs."""
    names = dict.fromkeys(mark.lane for mark in marks)
    first = [name for name in FIRST_LANES if name in names]
    return first + sorted((name for name in names if name not in first), key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts `client-10` behind `client-9`."""
    return [(int(part or 0), "") if part.isdigit() else (0, part) for part in _parts(name)]


def _parts(name: str) -> list[str]:
    return re.split(r"(\d+)", name)


def _mark(line: str) -> Mark:
    seconds, what = line.split(maxsplit=1)
    return Mark(float(seconds), *_lane_and_kind(what), line.strip())


def _lane_and_kind(what: str) -> tuple[str, str]:
    if what.startswith("fault: "):
        return "faults", "fault"
    if what.startswith("event "):
        return "keys", "asked"
    if what.startswith("answer: "):
        return "keys", "answered"
    told = _TOLD.match(what)
    if told:
        return told["program"], _outcome_in(told["outcome"])
    return _of_a_lane(what)


def _of_a_lane(what: str) -> tuple[str, str]:
    found = _OF_A_LANE.match(what)
    if found is None:
        return "others", "state"
    lane, rest = found["lane"], what[found.end() :]
    if rest == "syncs" or lane == "journal":
        return lane, "synced"
    if lane in FIRST_LANES:
        return lane, "state"
    return lane, _kind_by_start(rest) or _kind_by_words(rest)


def _kind_by_start(text: str) -> str:
    """Return the kind of what a program or a worker does; empty if a text begins otherwise."""
    starts = {_ASKED: "asked", _HANDLER: "handler", _LEASED: "answered"}
    return next((kind for start, kind in starts.items() if text.startswith(start)), "")


def _kind_by_words(text: str) -> str:
    outcome = _outcome_in(text)
    return "answered" if outcome == "state" and " is " in text else outcome


def _outcome_in(text: str) -> str:
    """Return the outcome of which a text tells; `state` if it tells of none."""
    words = ["completed" if word == "runs" else word for word in text.split()]
    return next((word for word in words if word in _OUTCOMES), "state")
