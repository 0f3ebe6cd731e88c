"""Signals to `purgatory spark`, in a process and a process group of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from purgatory.trace import KeyEvent, Operation, write_events, write_operations
from tests.testing.java import SHORT_LIVED_OPTIONS
from tests.testing.stream_input import StreamInput


@contextlib.contextmanager
def started(*arguments):
    """Run `purgatory spark` in a session of its own; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "purgatory", "spark", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"SPARK_SUBMIT_OPTS": SHORT_LIVED_OPTIONS},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def running(tmp_path):
    """A stream that has committed a micro-batch and waits for rows; ended after the test."""
    feed = StreamInput(tmp_path)
    feed.put_trace(([], []), 1)
    command = ["run", "--cores", "1", "--memory", "1g"]
    for name in ("operations", "events", "out", "checkpoint"):
        command += [f"--{name}", str(tmp_path / name)]
    with started(*command) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("batch 0")
        yield process


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


@pytest.fixture
def tables(tmp_path):
    """The paths of operations and events that take a moment to resolve."""
    keys = [str(number) for number in range(20_000)]
    with write_operations(tmp_path / "operations.parquet") as operations:
        for number, key in enumerate(keys):
            operations.write(Operation(key, "", number, 9, (key,)))
    with write_events(tmp_path / "events.parquet") as events:
        for number, key in enumerate(keys):
            events.write(KeyEvent(key, number))
    return [str(tmp_path / f"{name}.parquet") for name in ("operations", "events")]


def interrupted(tables, out):
    """Interrupt a batch that writes its outcomes; returns what it printed, and its exit code."""
    options = ["--out", str(out), "--cores", "1", "--memory", "1g"]
    with started("resolve", *tables, *options) as process:
        while not (out / "_temporary").exists() and process.poll() is None:
            threading.Event().wait(0.001)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        return *process.communicate(), process.returncode


@pytest.mark.timeout(400)  # a Java process, on a machine that may be busy
def test_ctrl_c_in_a_batch_is_one_line(tables, tmp_path):
    """The exit code is that of an interrupt."""
    for number in range(5):
        out, err, code = interrupted(tables, tmp_path / f"out-{number}")
        if code != 0:  # or it had ended: this thread may stall for longer than it writes
            break
    assert (code, out, err) == (130, "", "purgatory: interrupted\n")
