"""Trial: does anything notice a fault: the tests of the module, of its room, or else worlds?"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutants.generated.mutators import mutate
from tests.mutants.generated.sample import Candidate, places_of

_COPIED = (
    *("_purgatory_cpython", "timingwheel", "mq", "purgatory"),
    *("tests", "scripts", "benchmarks", "docs", "examples"),
)
_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "setup.py")
# Seconds after which a fault is noticed: it hangs.
_TEST_S, _WORLDS_S = 900, 600
_WORLDS = """
import sys
from tests.simulation.{}simulation import simulate, {} as Settings
for seed in range({}):
    verdict = simulate(seed, Settings({}))
    if verdict.violation:
        sys.exit(f"seed {{seed}}: {{verdict.violation[:200]}}")
"""


class Verdict(NamedTuple):
    """What came of a fault: `found_by` is "tests", "room", "worlds", or empty: it has survived."""

    candidate: Candidate
    change: str
    found_by: str
    why: str


class Bench:
    """A copy of the source tree, in which one fault after the other is tried."""

    def __init__(self, root: Path, directory: Path, worlds: int) -> None:
        self._root = root
        self._directory = directory
        self._worlds = worlds
        self._sound: dict[str, bool] = {}  # by file or folder: whether it passes without a fault
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "node_modules")
        for folder in _COPIED:
            shutil.copytree(root / folder, directory / folder, ignore=ignored)
        for name in _FILES:
            shutil.copy(root / name, directory / name)

    def try_fault(self, candidate: Candidate) -> Verdict:
        """Put a fault into the copy, see who notices, and take it out."""
        file = self._directory / candidate.file
        source = file.read_text(encoding="utf-8")
        mutated, change = mutate(source, candidate.fault)
        for name, tests in places_of(self._root, candidate.file).items():
            if not self._is_sound(tests):
                return Verdict(candidate, change, "", f"{tests} fails without a fault, too")
            with _replaced(file, mutated):
                why = self._test(tests)
            if why:
                return Verdict(candidate, change, name, why)
        with _replaced(file, mutated):
            why = self._simulate()
        return Verdict(candidate, change, "worlds" if why else "", why)

    def _is_sound(self, tests: str) -> bool:
        if tests not in self._sound:
            self._sound[tests] = not self._test(tests)
        return self._sound[tests]

    def _test(self, tests: str) -> str:
        return self._run(
            ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout", "60", tests],
            _TEST_S,
        )

    def _simulate(self) -> str:
        """Run worlds of both kinds, as many together as the bench was told."""
        half = -(-self._worlds // 2)
        worlds = (
            ("", "Settings", half, "seconds=20.0"),
            ("inprocess.", "ThreadSettings", half, ""),
        )
        for kind in worlds if self._worlds else ():
            if why := self._run(["-c", _WORLDS.format(*kind)], _WORLDS_S):
                return why
        return ""

    def _run(self, arguments: list[str], seconds: float) -> str:
        """Run Python in the copy; returns the last words of what fails, or nothing."""
        before = [self._directory.as_posix()]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(before), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=self._directory,
                env=env,
                capture_output=True,
                encoding="utf-8",
                errors="replace",  # a test may print any bytes
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return "it hangs"
        words = (done.stdout + done.stderr).strip().splitlines()
        return (words[-1] if words else "it ended") if done.returncode else ""


@contextlib.contextmanager
def _replaced(file: Path, text: str) -> Iterator[None]:
    """Let a file have another text meanwhile."""
    source = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(source, encoding="utf-8")
