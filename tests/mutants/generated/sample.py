"""Sample: a random part of all faults, as many of each package, by seed."""

import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.mutants.generated.mutators import Fault, faults_of

#: What is mutated: a name in the table, and the folders.
STRATA = {
    "core": ("purgatory/core",),
    "timingwheel": ("timingwheel",),
    "mq": ("mq/queues", "mq/pipes"),
    "server": ("purgatory/service/server",),
    "store": ("purgatory/service/store",),
    "client": ("purgatory/service/client",),
    "worker": ("purgatory/service/worker",),
    "spark": ("purgatory/spark/stream", "purgatory/spark/batch"),
}


class Candidate(NamedTuple):
    """A fault in a file."""

    stratum: str
    file: str
    fault: Fault


def draw(root: Path, size: int, seed: int, strata: list[str]) -> list[Candidate]:
    """Return so many faults, about as many of each stratum, in random order."""
    chance = random.Random(f"mutants {seed}")
    drawn: defaultdict[int, list[Candidate]] = defaultdict(list)
    share = -(-size // len(strata))
    for stratum in strata:
        found = candidates(root, stratum)
        for at, candidate in enumerate(chance.sample(found, min(share, len(found)))):
            drawn[at].append(candidate)
    return [candidate for turn in sorted(drawn) for candidate in drawn[turn]][:size]


def candidates(root: Path, stratum: str) -> list[Candidate]:
    """Return all faults of the files of a stratum."""
    files = sorted(
        file
        for folder in STRATA[stratum]
        for file in (root / folder).rglob("*.py")
        if file.name != "__init__.py"
    )
    return [
        Candidate(stratum, file.relative_to(root).as_posix(), fault)
        for file in files
        for fault in faults_of(file.read_text(encoding="utf-8"))
    ]


def places_of(root: Path, file: str) -> dict[str, str]:
    """Return where a module is tested: its mirror, if it has one, and the folder of that."""
    path = Path("tests") / file
    mirror = path.with_name(f"test_{path.name}")
    own = {"tests": mirror.as_posix()} if (root / mirror).exists() else {}
    return own | {"room": mirror.parent.as_posix()}
