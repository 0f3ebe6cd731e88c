"""The benchmarks run and print their tables; the figures are not judged here."""

import json
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import draw
import jvm
import peers
import pytest

from tests.postgres import programs

needs_postgres = pytest.mark.skipif(
    not programs.is_installed() and "CI" not in os.environ, reason=programs.MISSING
)
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("script", "arguments", "tables", "ours"),
    [
        (
            "bench_purgatory_load.py",
            ["--rates", "500,1000", "--seconds", "0.2", "--repeats", "1"],
            ["Latency low", "Latency high"],
            "| 500 |",
        ),
        (
            "bench_purgatory.py",
            ["--sizes", "100", "--pairs", "100", "--repeats", "1"],
            ["Pair", "Expiry"],
            "timingwheel",
        ),
        (
            "bench_free_threading.py",
            ["--operations", "50", "--repeats", "1"],
            ["One thread", "Two threads"],
            "shared timer",
        ),
        (
            "bench_round_trip.py",
            ["--trips", "5", "--repeats", "1"],
            ["One after the other"],
            "timer-purgatory",
        ),
        ("bench_expiry.py", ["--seconds", "2", "--rate", "200"], ["From defer"], "| "),
        ("bench_rearm.py", ["--sizes", "100", "--repeats", "1"], ["Re-arm"], "timingwheel"),
        ("bench_replay.py", ["--rows", "9000", "--repeats", "1"], ["A year of flights"], "Replay"),
        ("bench_tick.py", ["--seconds", "1", "--repeats", "1"], ["1000 timers"], "| 0.2 |"),
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
            "bench_aio.py",
            ["--waits", "100", "--ends", "100", "--repeats", "1", "--loops", "asyncio"],
            ["One wait, one after the other", "One wait, a thousand at a time", "100 ends"],
            "| AsyncPurgatory |",
        ),
        (
            "bench_service.py",
            ["--operations", "100", "--pending", "100", "--repeats", "1"],
            ["Durable operations", "Restart"],
            "timer-purgatory",
        ),
        pytest.param(
            *("bench_console.py", ["--jobs", "200", "--repeats", "1"]),
            *(["The console's first view with 200 jobs"], "| own |"),
            marks=pytest.mark.skipif(
                not shutil.which("chromium") and "CI" not in os.environ,
                reason="there is no chromium here",
            ),
        ),
        pytest.param(
            *("bench_postgres.py", ["--pending", "200", "--repeats", "1", "--fenced", "20"]),
            *(["PostgreSQL beside SQLite"], "| alone, ms |"),
            marks=needs_postgres,
        ),
        pytest.param(
            *("bench_takeover.py", ["--kills", "1", "--handovers", "1", "--pending", "0"]),
            *(["Nothing is acknowledged for"], "| handover, 0 pending |"),
            marks=needs_postgres,
        ),
        (
            "bench_neighbour.py",
            ["--operations", "600", "--seconds", "1"],
            ["A calm client beside a busy one"],
            "| values |",
        ),
        (
            "bench_workers.py",
            ["--jobs", "100", "--repeats", "1"],
            ["Jobs a second"],
            "timer-purgatory",
        ),
        (
            "bench_cancel_jobs.py",
            ["--jobs", "500", "--repeats", "1"],
            ["A submit while 500 jobs are cancelled"],
            "| beside it |",
        ),
        (
            "bench_remembered.py",
            ["--remembered", "500", "--candidates", "300", "--submits", "1500", "--repeats", "1"],
            ["300 ids", "A server"],
            "| entries |",
        ),
        (
            "soak_workers.py",
            ["--seconds", "1", "--rate", "50"],
            ["The load", "At the end"],
            "| done |",
        ),
    ],
)
def test_runs(script, arguments, tables, ours):
    """A small run succeeds and prints every table, with a row of ours."""
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390)
    assert (done.returncode, done.stderr) == (0, "")
    for table in tables:
        assert f"### {table}" in done.stdout
    assert done.stdout.count(ours) >= len(tables) - 1


def contestants():
    """Return all timers that can be measured here."""
    try:
        jvm.command("fill", "jdk", 1, 0)
    except jvm.NoJvm:
        return set(peers.installed())
    return {*peers.installed(), *jvm.PEERS}


@pytest.mark.timeout(400)
def test_timer(tmp_path):
    """Every contestant that is installed has every figure, and a page can be drawn of them."""
    command = [sys.executable, str(BENCHMARKS / "bench_timer.py"), "--sizes", "100"]
    command += ["--repeats", "1", "--seconds", "0.02", "--warm", "0"]
    command += ["--json", str(tmp_path / "timer.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390)
    assert (done.returncode, done.stderr) == (0, "")
    for table in ("Schedule", "Cancel", "Drain", "Bytes", "Collection", "Lateness", "Longest"):
        assert f"### {table}" in done.stdout
    kept = json.loads((tmp_path / "timer.json").read_text(encoding="utf-8"))
    costs = kept["figures"]["costs"]
    assert set(costs["schedule"]) == contestants()
    assert set(kept["figures"]["lateness"]) == contestants() | {peers.INLINE}
    assert set(costs["collection"]) == set(peers.installed())
    assert set(kept["figures"]["stalls"]) == contestants() & {"timingwheel", "netty", "jdk"}
    measured = [costs[kind].values() for kind in ("schedule", "cancel", "drain", "collection")]
    assert all(value > 0 for value in chain.from_iterable(chain.from_iterable(measured)))
    assert all(late["count"] == 20 for late in kept["figures"]["lateness"].values())
    assert draw.make_page([kept]).count("<svg") == 2 * 5
