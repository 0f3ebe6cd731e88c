"""SIGKILL of the driver during micro-batches: no outcome is lost, and none is there twice."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

ROOT = Path(__file__).parents[4]
# Each kill costs a Java process; run ten or more of them at night, or when in doubt.
KILLS = int(os.environ.get("PURGATORY_KILLS", "1"))
FILES = 3 + KILLS  # a batch each, and a kill in one of the first two of each process
# A micro-batch takes about so long on an idle machine.
LONGEST_SECONDS = 2.0


def drive(path, rng):
    """Run the stream in a process of its own; return its exit code."""
    moment = [str(rng.randrange(2)), str(rng.uniform(0.01, LONGEST_SECONDS))]
    command = [sys.executable, "-m", "tests.testing.killed_stream", str(path), *moment]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


@pytest.mark.timeout(120 + 120 * KILLS)  # as many Java processes, one after the other
def test_kills_at_random(spark, tmp_path):
    """After each kill a part of the outcomes is there, once; in the end all of them are."""
    trace = joined(random_traces(40))
    wanted = expected(trace)
    feed = StreamInput(tmp_path)
    feed.put_trace(trace, FILES)
    rng = random.Random()
    kills = 0
    for _ in range(KILLS):
        kills += drive(tmp_path, rng) == -signal.SIGKILL
        got = feed.outcomes()
        assert len(got) == len(set(got))
        assert set(got) <= set(wanted)
    assert kills
    feed.stream(spark, watermark_ms=0).run(until_end=True)
    assert wanted == feed.outcomes()
