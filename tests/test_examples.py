"""The programs in examples/ run, and print what they are about."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.java import SHORT_LIVED_OPTIONS

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "timer.py": ["b stops", "b is silent", "still watched: a c"],
    "kafka_style.py": [
        "1 completed",
        "offset 1: acknowledged",
        "offset 2: not enough replicas",
    ],
    "futures.py": ["HELLO", "1 of ('reply', 2) not completed within 100 ms"],
    "asyncio_futures.py": [
        "order 1 is paid: 12.50",
        "order 2 is given up",
        "cancelled: True waiting: 0",
    ],
    "service_client.py": [
        "the server has ended, and starts again",
        "completed: 1",
        "order-17: {'amount': 12.5}",
        "order-18: expired",
    ],
    "replay.py": ["1000 parcels: 913 in time, 87 late", "longest wait: 2 hours"],
    "spark_stream.py": [
        "1 completed, 1 expired so far",
        "1 completed, 2 expired so far",
        "o1 completed 400",
        "o2 expired 500",
        "o3 expired 500",
    ],
}
NEEDS = {"service_client.py": "zmq", "spark_stream.py": "pyspark"}


def test_each_example_is_listed():
    """A new program gets its output written down here."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


# One of them starts Spark: seconds on an idle machine, minutes on a busy one.
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", PRINTED)
def test_example_prints(name, tmp_path):
    """Run as a user does, in an empty directory, warnings being errors."""
    pytest.importorskip(NEEDS.get(name, "purgatory"))
    tree = str(ROOT) if (ROOT / "purgatory").is_dir() else ""  # or what is installed
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": tree, "SPARK_SUBMIT_OPTS": SHORT_LIVED_OPTIONS},
        timeout=400,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr) == (PRINTED[name], "")
