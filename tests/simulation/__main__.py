"""`python -m tests.simulation`: runs many seeds, or tells or draws the history of one."""

import argparse
import hashlib
import itertools
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.simulation.fault_phases import PHASES, empty_cells
from tests.simulation.page.page_maker import make_page
from tests.simulation.simulation import Verdict
from tests.simulation.worlds import (
    ClusterWorlds,
    ServiceWorlds,
    SteeredWorlds,
    ThreadWorlds,
    Worlds,
)

_OUT = Console(highlight=False, markup=False, soft_wrap=True)
# Lines of the history that are shown before a violation.
_LAST_LINES = 60


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seconds", type=float, default=60.0, help="with faults, of each world")
    parser.add_argument("--minutes", type=float, help="as many seeds as fit into that time")
    parser.add_argument("--fresh", action="store_true", help="begin with the seed of the commit")
    parser.add_argument("--history", action="store_true", help="tell the history of one seed")
    parser.add_argument("--inprocess", action="store_true", help="the threads of one process")
    parser.add_argument("--steered", action="store_true", help="a program that steers its jobs")
    parser.add_argument("--cluster", action="store_true", help="two servers over one database")
    parser.add_argument("--digests", action="store_true", help="only print what histories hash to")
    parser.add_argument("--page", type=Path, help="draw the history of one seed: an HTML file")
    options = parser.parse_args(arguments)
    if options.fresh:
        options.first = seed_of_commit()
    worlds: Worlds = ThreadWorlds() if options.inprocess else ServiceWorlds(options.seconds)
    worlds = SteeredWorlds(options.seconds) if options.steered else worlds
    worlds = ClusterWorlds(options.seconds) if options.cluster else worlds
    if options.history or options.page:
        return _tell(worlds.run(options.first, with_history=True), options)
    if options.minutes is not None:
        return _run(_seeds_for(options.first, 60 * options.minutes), worlds)
    seeds = range(options.first, options.first + options.seeds)
    if options.digests:
        return _print_digests(seeds, worlds)
    with Progress(console=_OUT, transient=True) as progress:
        return _run(progress.track(seeds, description="Worlds"), worlds)


def seed_of_commit() -> int:
    """Return a seed that nothing ran before this commit; a random one outside a repository.

    So what checks a commit again, anywhere, runs the same worlds.
    """
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--verify", "HEAD"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return random.randrange(10**9)
    return int(commit[:12], 16) % 10**9


def _print_digests(seeds: Iterable[int], worlds: Worlds) -> int:
    """Print the SHA-256 of each history: so machines and versions of Python are compared."""
    failed = False
    for seed in seeds:
        verdict = worlds.run(seed, with_history=True)
        digest = hashlib.sha256("\n".join(verdict.history).encode()).hexdigest()
        _OUT.print(f"{seed} {digest}")
        failed = failed or bool(verdict.violation)
    return int(failed)


def _tell(verdict: Verdict, options: argparse.Namespace) -> int:
    """Tell or draw the history of one seed; returns the exit code."""
    if options.history:
        _OUT.print("\n".join(verdict.history))
    if options.page:
        title = f"The world of seed {verdict.seed}"
        page = make_page(title, verdict.history, verdict.violation, _figures_of(verdict))
        options.page.write_text(page, encoding="utf-8")
    _OUT.print(verdict.violation or "every promise was kept")
    return bool(verdict.violation)


def _figures_of(verdict: Verdict) -> dict[str, str]:
    """Return what the page says of a world beside its history."""
    faults = {kind.replace("_", " "): f"{count:,}" for kind, count in verdict.faults.items()}
    return {
        "simulated seconds": f"{verdict.simulated_s:,.0f}",
        "steps": f"{verdict.steps:,}",
        "operations": f"{verdict.operations:,}",
        "jobs": f"{verdict.jobs:,}",
        **faults,
    }


def _seeds_for(first: int, seconds: float) -> Iterator[int]:
    """Yield seeds until so many seconds have passed."""
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        if time.monotonic() >= end:
            return
        yield seed


def _run(seeds: Iterable[int], worlds: Worlds) -> int:
    """Run seeds; returns the exit code."""
    totals: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    phases: Counter[tuple[str, str]] = Counter()
    failed: list[Verdict] = []
    start = time.process_time()
    for seed in seeds:
        verdict = worlds.run(seed)
        totals.update(
            worlds=1,
            seconds=int(verdict.simulated_s),
            operations=verdict.operations,
            jobs=verdict.jobs,
            steps=verdict.steps,
        )
        faults.update(verdict.faults)
        phases.update(getattr(verdict, "phases", {}))  # worlds of threads have none
        if verdict.violation:
            failed.append(verdict)
            _OUT.print(f"seed {seed}: {verdict.violation}")
    _print_summary(totals, faults, time.process_time() - start)
    if phases:
        _print_phases(faults, phases)
    if failed:
        _print_smallest(failed[0], worlds)
    return bool(failed)


def _print_summary(totals: Counter[str], faults: Counter[str], cpu_seconds: float) -> None:
    hours = totals["seconds"] / 3600
    _OUT.print(f"{totals['worlds']:,} worlds, {hours:,.1f} simulated hours:", end=" ")
    _OUT.print(f"{cpu_seconds:,.0f} CPU seconds,")
    work = [f"{totals[name]:,} {name}" for name in ("operations", "jobs", "steps")]
    _OUT.print(f"{', '.join(work)}; faults:")
    for kind, count in faults.most_common():
        _OUT.print(f"{count:9,}  {kind.replace('_', ' ')}")


def _print_phases(faults: Counter[str], phases: Counter[tuple[str, str]]) -> None:
    """Print in which phases of the server each fault has happened, and in which never."""
    _OUT.print("phases of the server in which they happened:")
    for kind in sorted({kind for kind, _ in phases}):
        found = [f"{phases[kind, phase]:,} {phase}" for phase in PHASES if phases[kind, phase]]
        _OUT.print(f"  {kind.replace('_', ' ')}: {', '.join(found)}")
    _OUT.print("phases in which they never happened:")
    for line in empty_cells(phases, [kind for kind in faults if kind != "bits_rot"]):
        _OUT.print(f"  {line}")


def _print_smallest(verdict: Verdict, worlds: Worlds) -> None:
    _OUT.print(f"\nThe first failure, seed {verdict.seed}, made smaller:")
    smallest, made_of = worlds.shrink(verdict)
    _OUT.print(made_of)
    _OUT.print("\n".join(smallest.history[-_LAST_LINES:]))
    _OUT.print(smallest.violation)


if __name__ == "__main__":
    sys.exit(main())
