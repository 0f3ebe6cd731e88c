"""Servers that may take so much memory: they take no more, small operations or large ones."""

import re
from os import environ
from pathlib import Path

import pytest
import zmq

from purgatory.__main__ import main
from purgatory.service.machine_memory import MIN_BYTES
from purgatory.service.protocol import Complete, Completion, Stats, Submit
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import RawPeer
from tests.testing.step_server import StepServer, operation

LONG = "PURGATORY_SECONDS" in environ
LONG_MS = 10**8


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(0)


def small(number):
    """One key, nothing else."""
    return operation(f"order-{number}", f"paid-{number}", timeout_ms=LONG_MS)


def large(number):
    """A hundred keys of 900 bytes."""
    keys = [f"{number}-{n}-".ljust(900, "x") for n in range(100)]
    return operation(f"large-{number}", *keys, timeout_ms=LONG_MS)


def resident_bytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def fill(peer, make, batch):
    """Submit operations until one is refused; returns how many were taken."""
    for first in range(0, 1_000_000, batch):
        answer = peer.ask(Submit(first, [make(first + n) for n in range(batch)]))
        if answer.refused:
            assert {refusal.code for refusal in answer.refused} == {"too-much-memory"}
            return first + batch - len(answer.refused)
    raise AssertionError("nothing was refused")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("make", "batch"), [(small, 1000), (large, 10)])
def test_the_memory_is_bounded(tmp_path, context, make, batch):
    """By `max_memory` plus a fifth, also after the next start; and what ends makes room."""
    if make is small and not LONG:
        pytest.skip("PURGATORY_SECONDS is not set: more than a hundred thousand operations")
    most = MIN_BYTES * 120 // 100
    with ServerProcess(tmp_path / "data", "--max-memory", str(MIN_BYTES)) as serve:
        peer = RawPeer(context, serve.address)
        peer.hello()
        count = fill(peer, make, batch)
        assert resident_bytes(serve.process) <= most
        figures = peer.ask(Stats(1)).stats
        assert figures["memory_bytes"] <= figures["max_memory_bytes"] == MIN_BYTES
        assert peer.ask(Complete(2, [Completion(make(1).keys[0])])).counts == [1]
        peer.socket.close(0)
        serve.end()
        serve.start()
        assert resident_bytes(serve.process) <= most
        peer = RawPeer(context, serve.address)
        peer.hello("other")
        assert peer.ask(Stats(1)).stats["pending"] == count - 1
        peer.socket.close(0)


def test_a_start_with_too_much(tmp_path, capsys):
    """One line says what to do, and the exit code is 2."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    server = StepServer(data / "purgatory.db", keys=100, text_bytes=1024)
    for first in range(0, 1800, 20):
        server.submit(*(large(first + n) for n in range(20)))
    server.store.close()
    limit = str(MIN_BYTES)
    flags = ["--data-dir", str(data), "--http-bind", "", "--bind", "tcp://127.0.0.1:0"]
    assert main(["serve", *flags, "--max-memory", limit]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(rf"max_memory is {limit}: raise it to \d+, or to 0 for any", line)
