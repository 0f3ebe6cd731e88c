"""`python -m tests.mutants WORDS`: simulates a copy of the source with each mutant, until found."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.thread_mutants import THREAD_MUTANTS

ROOT = Path(__file__).parents[2]
#: In so many worlds a mutant has to be found.
WORLDS = 200
OUT = Console(highlight=False, markup=False, soft_wrap=True)
PACKAGES = ("timingwheel", "mq", "purgatory")
SIMULATE = """
from {} import simulate
for seed in range({}):
    verdict = simulate(seed)
    if verdict.violation:
        print(seed, verdict.violation)
        break
"""
SERVICE = "purgatory.simulation.simulation"
THREADS = "purgatory.simulation.inprocess.simulation"


def make_copy(mutant: Mutant, directory: Path) -> None:
    """Copy the packages to a directory, with the mutant's fault."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, directory / package)
    file = directory / mutant.file
    source = file.read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.what}: not once in {mutant.file}"
    file.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")


def find(mutant: Mutant) -> str:
    """Return the seed that finds a mutant in its worlds, and what it saw; empty if none does."""
    worlds = THREADS if mutant in THREAD_MUTANTS else SERVICE
    with tempfile.TemporaryDirectory() as directory:
        make_copy(mutant, Path(directory))
        done = subprocess.run(
            [sys.executable, "-c", SIMULATE.format(worlds, WORLDS)],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": directory},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() or done.stderr.strip()[-300:]


def main() -> int:
    """Find all; returns the exit code: 1 if one was not found."""
    chosen = [m for m in MUTANTS + THREAD_MUTANTS if all(word in m.what for word in sys.argv[1:])]
    missed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, found in zip(chosen, pool.map(find, chosen), strict=True):
            missed += not found
            OUT.print(f"{found.split()[0] if found else 'MISSED':>7}  {mutant.what}")
            OUT.print(f"         {found[:160]}")
    OUT.print(f"{len(chosen) - missed} of {len(chosen)} found")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
