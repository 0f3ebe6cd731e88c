"""`python -m tests.mutants [--record] WORDS`: simulates copies of the source, each with a mutant.

The seed that found a mutant before, in `seeds.json`, is tried first, then all others. `--record`
writes those that have found one now.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from tests.mutants.cluster_mutants import CLUSTER_MUTANTS
from tests.mutants.crowd_mutants import CROWD_MUTANTS
from tests.mutants.exact_mutants import EXACT_MUTANTS
from tests.mutants.exact_mutants import WORLDS as EXACT_WORLDS
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.repeat_mutants import REPEAT_MUTANTS
from tests.mutants.steering_mutants import STEERING_MUTANTS
from tests.mutants.thread_mutants import THREAD_MUTANTS

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).with_name("seeds.json")
#: In so many worlds a mutant has to be found.
WORLDS = 200
STEERED_MUTANTS = STEERING_MUTANTS + REPEAT_MUTANTS
ALL = MUTANTS + EXACT_MUTANTS + THREAD_MUTANTS + STEERED_MUTANTS + CLUSTER_MUTANTS + CROWD_MUTANTS
OUT = Console(highlight=False, markup=False, soft_wrap=True)
PACKAGES = ("_purgatory_cpython", "timingwheel", "mq", "purgatory")
COPIED = (*PACKAGES, "tests/simulation", "tests/testing")
SIMULATE = """
from {} import simulate
for seed in {}:
    verdict = simulate(seed)
    if verdict.violation:
        print(seed, verdict.violation)
        break
"""
SERVICE = "tests.simulation.simulation"
THREADS = "tests.simulation.inprocess.simulation"
REPEATS = "tests.simulation.steering.repeat_world"
STEERED = "tests.simulation.steering.simulation"
CROWDS = "tests.simulation.crowds"
CLUSTERS = "tests.simulation.cluster.cluster_simulation"


class Finding(NamedTuple):
    """What the worlds say of a mutant: the seed that found it, -1 if none has, and why."""

    seed: int
    why: str


def recorded_seeds() -> dict[str, int]:
    """Return the seeds that found mutants before, by `Mutant.what`."""
    seeds: dict[str, int] = json.loads(SEEDS.read_text(encoding="utf-8"))
    return seeds


def make_copy(mutant: Mutant, directory: Path) -> None:
    """Copy the packages and the simulation to a directory, with the mutant's fault."""
    for folder in COPIED:
        shutil.copytree(ROOT / folder, directory / folder)
    (directory / "tests/__init__.py").touch()
    file = directory / mutant.file
    source = file.read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.what}: not once in {mutant.file}"
    file.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")


def find(mutant: Mutant, first: int) -> Finding:
    """Look for a mutant in its worlds, at the seed `first` first."""
    worlds = THREADS if mutant in THREAD_MUTANTS else SERVICE
    worlds = STEERED if mutant in STEERING_MUTANTS else worlds
    worlds = REPEATS if mutant in REPEAT_MUTANTS else worlds
    worlds = CLUSTERS if mutant in CLUSTER_MUTANTS else worlds
    worlds = CROWDS if mutant in CROWD_MUTANTS else worlds
    most = EXACT_WORLDS if mutant in EXACT_MUTANTS else WORLDS
    seeds = [first, *(seed for seed in range(most) if seed != first)]
    with tempfile.TemporaryDirectory() as directory:
        make_copy(mutant, Path(directory))
        done = subprocess.run(
            [sys.executable, "-c", SIMULATE.format(worlds, seeds)],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": directory},
            capture_output=True,
            text=True,
            check=False,
        )
    # A mutant that breaks the simulation itself is none: nothing was found.
    if done.returncode or not done.stdout:
        return Finding(-1, done.stderr.strip()[-300:])
    seed, why = done.stdout.strip().split(" ", 1)
    return Finding(int(seed), why)


def record(what: str, seed: int) -> None:
    """Write the seed that has found a mutant beside the others; what is no mutant any more goes."""
    seeds = recorded_seeds() | {what: seed}
    known = {mutant.what: seeds[mutant.what] for mutant in ALL if mutant.what in seeds}
    SEEDS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Find all; returns the exit code: 1 if one was not found."""
    words = [word for word in arguments if word != "--record"]
    chosen = [mutant for mutant in ALL if all(word in mutant.what for word in words)]
    before = recorded_seeds()
    firsts = [before.get(mutant.what, 0) for mutant in chosen]
    found = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, finding in zip(chosen, pool.map(find, chosen, firsts), strict=True):
            if finding.seed >= 0:
                found[mutant.what] = finding.seed
                if "--record" in arguments:
                    record(mutant.what, finding.seed)
            OUT.print(f"{finding.seed if finding.seed >= 0 else 'MISSED':>7}  {mutant.what}")
            OUT.print(f"         {finding.why[:160]}")
    OUT.print(f"{len(found)} of {len(chosen)} found")
    return len(found) < len(chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
