"""SIGKILL at random moments while an event ends many operations: each ends once, with the value.

`PURGATORY_ROUNDS` is how often; a failure prints the seed.
"""

import os
import random
import threading
from collections import defaultdict

import pytest

from purgatory.service import Client, encoding, protocol
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "2"))
# Waiting operations, and bytes of the value: the server ends them in portions of 100.
WAITING = int(os.environ.get("PURGATORY_WAITING", "3000"))
VALUE_BYTES = int(os.environ.get("PURGATORY_VALUE_BYTES", "20000"))
# Seconds in which the event ends them, about.
SPREAD_S = 0.5


@pytest.fixture
def sent(monkeypatch):
    """Return the numbers of the outcomes that the server has sent, by operation."""
    numbers = defaultdict(set)
    decode = encoding.decode_answer

    def spy(frame):
        message = decode(frame)
        for outcome in message.outcomes if isinstance(message, protocol.Outcomes) else ():
            numbers[outcome.op_id].add(outcome.number)
        return message

    monkeypatch.setattr(encoding, "decode_answer", spy)
    return numbers


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_sigkill_while_an_event_ends_many(tmp_path, sent):
    """The answer is how many it ended; no outcome is missing, or comes with another number."""
    seed = random.randrange(10**9)
    dice = random.Random(seed)
    with (
        ServerProcess(tmp_path / "data") as serve,
        Client(serve.address, name="owner", timeout=HANG) as owner,
        Client(serve.address, name="other", timeout=HANG) as other,
    ):
        for number in range(ROUNDS):
            key, value = f"key {number}", f"{number}".ljust(VALUE_BYTES, "x")
            ids = [f"{key} {n}" for n in range(WAITING)]
            futures = [owner.defer(key, timeout=3600, op_id=op_id) for op_id in ids]
            owner.flush(HANG)
            answer = other.complete_later(key, value)
            threading.Event().wait(dice.uniform(0, SPREAD_S))
            serve.kill()
            serve.start()
            assert answer.result(HANG) == WAITING, f"seed {seed}"
            for op_id, future in zip(ids, futures, strict=True):
                assert future.result(HANG) == value, f"seed {seed}, {op_id}"
                assert len(sent[op_id]) == 1, f"seed {seed}, {op_id}"
            assert owner.stats()["pending"] == 0
