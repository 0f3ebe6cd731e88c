"""`python -m tests.mutants.generated`: tries a random sample of all faults that can be made.

Each is tried against the tests of its module, those that survive against all tests of its folder,
then in worlds. Exit code 1: some have survived all; whether these are equivalent, untested or dead
code is for people to say.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console

from tests.mutants.generated.sample import STRATA, Candidate, draw
from tests.mutants.generated.trial import Bench, Verdict

ROOT = Path(__file__).parents[3]
OUT = Console(highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.generated", description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--skip", type=int, default=0, help="so many of them, tried before")
    parser.add_argument("--worlds", type=int, default=50, help="for those that survive the tests")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after that time")
    parser.add_argument("--jobs", type=int, default=2, help="tried at the same time (default: 2)")
    parser.add_argument("strata", nargs="*", default=list(STRATA), help=", ".join(STRATA))
    options = parser.parse_args(arguments)
    chosen = draw(ROOT, options.sample, options.seed, options.strata)
    verdicts = _try_all(chosen[options.skip :], options)
    _print_table(verdicts)
    return any(not verdict.found_by for verdict in verdicts)


def _try_all(chosen: list[Candidate], options: argparse.Namespace) -> list[Verdict]:
    """Try faults, each in a copy of the tree that no other one uses meanwhile."""
    end = time.monotonic() + 60 * options.minutes
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as directory:
        benches: SimpleQueue[Bench] = SimpleQueue()
        for number in range(options.jobs):
            folder = Path(directory, str(number))
            folder.mkdir()
            benches.put(Bench(ROOT, folder, options.worlds))

        def try_one(candidate: Candidate) -> None:
            if time.monotonic() < end:
                bench = benches.get()
                verdict = bench.try_fault(candidate)
                benches.put(bench)
                verdicts.append(verdict)
                _print(verdict)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(try_one, chosen))
    return verdicts


def _print(verdict: Verdict) -> None:
    file, fault = verdict.candidate.file, verdict.candidate.fault
    OUT.print(f"{verdict.found_by or 'SURVIVED':8} {file}:{fault.line} {fault.kind}")
    OUT.print(f"         {verdict.change}")
    if verdict.why and verdict.found_by != "tests":
        OUT.print(f"         {verdict.why[:200]}")


def _print_table(verdicts: list[Verdict]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for verdict in verdicts:
        counts[verdict.candidate.stratum, verdict.found_by] += 1
    names = ("tests", "room", "worlds", "survived")
    OUT.print(f"\n{'':12} {'tried':>8}" + "".join(f" {name:>8}" for name in names))
    for stratum in STRATA:
        by = [counts[stratum, name] for name in ("tests", "room", "worlds", "")]
        if sum(by):
            OUT.print(f"{stratum:12} {sum(by):8}" + "".join(f" {count:8}" for count in by))


if __name__ == "__main__":
    sys.exit(main())
