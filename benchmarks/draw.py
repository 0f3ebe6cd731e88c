"""Draw the page of `make bench` from the figures that the benchmarks kept as JSON.

    python benchmarks/draw.py build/bench

reads `timer.json` and `load.json` there, if they exist, and writes `index.html` beside them: one
file that needs nothing else. Every plot has its figures in a table, too.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import plot_lines
from plot_lines import NAMES

from purgatory.spark.report import formatting
from purgatory.spark.report.page.html import document, escape, figure, paragraph, section, table

Figures = dict[str, Any]

TITLE = "Timers and purgatory, measured"


def main() -> None:
    """Draw the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    subjects = [json.loads(path.read_text("utf-8")) for path in sorted(directory.glob("*.json"))]
    page = directory / "index.html"
    page.write_text(make_page(subjects), encoding="utf-8")
    print(f"{page}: {len(subjects)} subjects")


def make_page(subjects: Sequence[Figures]) -> str:
    """Return the page of the files that `harness.keep` wrote, the newest of each subject."""
    newest = {kept["subject"]: kept for kept in sorted(subjects, key=lambda kept: kept["taken"])}
    parts = [f"<h1>{escape(TITLE)}</h1>"]
    for subject, draw in SUBJECTS.items():
        if subject in newest:
            parts += [section(*part) for part in draw(newest[subject])]
    return document(TITLE, parts)


def _taken(kept: Figures) -> str:
    return paragraph(f"{kept['machine']}; {kept['taken']}; median of {kept['figures']['repeats']}.")


Section = tuple[str, list[str]]


def draw_timer(kept: Figures) -> Iterator[Section]:
    """Return the section of bench_timer.py's figures."""
    figures = kept["figures"]
    costs, sizes = figures["costs"], figures["sizes"]
    plots = []
    for kind in ("schedule", "cancel", "drain"):
        plots.append(figure(plot_lines.costs(kind, sizes, costs[kind])))
        plots.append(_costs(f"{kind.capitalize()}, ns a timer", sizes, costs[kind]))
    yield "What a timer costs", [_taken(kept), paragraph(COSTS), *plots]
    yield (
        "Memory and the collector",
        [
            _costs("Bytes a pending timer", sizes, costs["bytes"]),
            _costs("A full collection, CPU ms", sizes, costs["collection"]),
        ],
    )
    yield "Lateness", list(_lateness(figures["lateness"]))
    yield "Stalls", list(_stalls(sizes, figures["stalls"], figures["stall_edges"]))


COSTS = (
    "CPU nanoseconds for one timer, with so many pending; both axes are logarithmic. Of the JVM "
    "those of the two threads that work, when it is warm, without its collector and compiler. "
    "Netty ticks at 100 ms, its default; ours at 1 ms. sched looks through its queue to cancel."
)


def _costs(title: str, sizes: Sequence[int], by_peer: dict[str, list[float | None]]) -> str:
    rows = [[NAMES[peer], *map(_number, values)] for peer, values in by_peer.items()]
    return table(title, ["pending", *(f"{size:,}" for size in sizes)], rows)


def _number(value: float | None) -> str:
    return formatting.NOTHING if value is None else formatting.number(value)


MARKS = {"least": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}


def _lateness(by_peer: dict[str, Figures]) -> Iterator[str]:
    yield paragraph(
        "1000 timers a second, one a millisecond: wall time from when each was due until it was "
        "called. Left of 0 is early. Netty ticks at 1 ms here."
    )
    yield figure(plot_lines.lateness({peer: late["quantiles"] for peer, late in by_peer.items()}))
    rows = []
    for peer, late in by_peer.items():
        curve = late["quantiles"]
        marks = [curve[round(share * (len(curve) - 1))] for share in MARKS.values()]
        rows.append(
            [NAMES[peer], *map(formatting.number, marks), f"{late['early']} of {late['count']}"]
        )
    yield table("Lateness, ms", ["", *MARKS, "early"], rows)


def _stalls(
    sizes: Sequence[int], by_peer: dict[str, list[Figures]], edges: Sequence[float]
) -> Iterator[str]:
    yield paragraph(
        "What a thread waits that schedules, while timers that are all due drain in other threads: "
        "wall time of each call, without a pause between them. Both axes are logarithmic. The "
        "other timers of Python take none from another thread."
    )
    for number, size in enumerate(sizes):
        calls = {peer: stalls[number]["calls"] for peer, stalls in by_peer.items()}
        yield figure(plot_lines.stalls(size, edges, calls))
    rows = [
        [NAMES[peer], *(formatting.number(stall["longest"]) for stall in stalls)]
        for peer, stalls in by_peer.items()
    ]
    heads = ["due", *(f"{size:,}" for size in sizes)]
    yield table("The longest call, median over the rounds, ms", heads, rows)
    bounds = [f"to {formatting.number(edge)}" for edge in edges] + ["more"]
    for number, size in enumerate(sizes):
        rows = [
            [NAMES[peer], *(f"{count:,}" for count in stalls[number]["calls"])]
            for peer, stalls in by_peer.items()
        ]
        yield table(f"Calls by how many ms they took, {size:,} due", ["", *bounds], rows)


def draw_load(kept: Figures) -> Iterator[Section]:
    """Return the section of bench_purgatory_load.py's figures."""
    figures = kept["figures"]
    steps, seconds = figures["steps"], figures["seconds"]
    rows = [
        [
            f"{profile}, {step['target']:,.0f}",
            f"{step['actual']:,.0f}",
            formatting.share(step["actual"] / step["target"]),
            formatting.number(step["cpu"]),
            formatting.number(step["load_cpu"]),
            formatting.share(step["expired"]),
            formatting.number(step["behind_ms"]),
        ]
        for profile, step in chain.from_iterable(
            ((profile, step) for step in of_profile) for profile, of_profile in steps.items()
        )
    ]
    heads = ["latency, target/s", "actual/s", "of the target"]
    heads += ["CPU, s", "load alone, s", "expired", "behind, ms"]
    yield (
        "Kafka's load on a purgatory",
        [
            _taken(kept),
            paragraph(
                "Requests with a timeout of 200 ms that watch three keys, submitted at random for "
                f"{seconds:g} s. Low latency: half within 20 ms, three quarters within 60; high: "
                "within 200 and 400, so half expire. Load alone is the CPU of the same without a "
                "purgatory; behind, how long after its time a request was submitted at most."
            ),
            figure(plot_lines.rates(steps)),
            figure(plot_lines.request_costs(steps, seconds)),
            table("Rates", heads, rows),
        ],
    )


SUBJECTS: dict[str, Callable[[Figures], Iterator[Section]]] = {
    "timer": draw_timer,
    "load": draw_load,
}


if __name__ == "__main__":
    main()
