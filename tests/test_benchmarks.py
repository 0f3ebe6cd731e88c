"""The benchmarks run and print their tables; what they print is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "tables", "ours"),
    [
        (
            "bench_timer.py",
            ["--sizes", "100", "--repeats", "1", "--seconds", "0.02"],
            ["Schedule", "Cancel", "Drain", "Bytes", "Lateness", "Longest schedule"],
            "timingwheel",
        ),
        (
            "bench_purgatory.py",
            ["--sizes", "100", "--pairs", "100", "--repeats", "1"],
            ["Pair", "Expiry"],
            "timingwheel",
        ),
        (
            "bench_mq.py",
            ["--messages", "800", "--trips", "20", "--repeats", "1"],
            ["Messages a second", "Round trips a second"],
            "mq ",
        ),
        (
            "bench_bus.py",
            ["--operations", "80", "--repeats", "1"],
            ["Handed over", "Done"],
            "complete_later",
        ),
        (
            "bench_service.py",
            ["--operations", "100", "--pending", "100", "--repeats", "1"],
            ["Durable operations", "Restart"],
            "timer-purgatory",
        ),
    ],
)
def test_runs(script, arguments, tables, ours):
    """A small run ends well and has every table, with a row for us."""
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert (done.returncode, done.stderr) == (0, "")
    for table in tables:
        assert f"### {table}" in done.stdout
    assert done.stdout.count(ours) >= len(tables) - 1
