"""Signals to `purgatory spark run`, in a process and a process group of its own."""

import os
import signal
import subprocess
import sys

import pytest

from tests.testing.stream_input import StreamInput


@pytest.fixture
def running(tmp_path):
    """A stream that has committed a micro-batch and waits for rows; ended after the test."""
    feed = StreamInput(tmp_path)
    feed.put_trace(([], []), 1)
    command = [sys.executable, "-m", "purgatory", "spark", "run", "--cores", "1", "--memory", "1g"]
    for name in ("operations", "events", "out", "checkpoint"):
        command += [f"--{name}", str(tmp_path / name)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("batch 0")
    yield process
    process.kill()
    process.wait()


@pytest.mark.timeout(400)  # a Java process, on a machine that may be busy
def test_a_signal_to_the_process_group_ends_it_cleanly(running):
    """Java does not get the signal, so that the stream can stop its query."""
    os.killpg(running.pid, signal.SIGTERM)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert out.startswith("0 operations: 0 completed")


@pytest.mark.timeout(400)  # a Java process, on a machine that may be busy
def test_a_java_process_that_was_killed_is_one_line(running):
    """The exit code is 2, as for other errors."""
    children = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(running.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (java,) = [line.split()[0] for line in children.splitlines() if "java" in line]
    os.kill(int(java), signal.SIGKILL)
    _, err = running.communicate()
    assert (running.returncode, err) == (2, "purgatory: Spark's Java process has ended\n")
