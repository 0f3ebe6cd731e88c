"""SIGKILL at random moments while the disk is full, fails and is slow: what was answered holds.

`PURGATORY_ROUNDS` is how often; a failure prints the seed.
"""

import os
import random
import threading
from collections import defaultdict

import pytest

from purgatory import OperationExpired
from purgatory.service import Client, StoreFailed, encoding, protocol
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "2"))
VALUE = "the value"
# Queries that wait for their answers; a server takes some more.
AT_ONCE = 100


class Load:
    """Defers and completes in a thread; records answers, refusals and the outcomes sent."""

    def __init__(self, address, seed, patch):
        self.random = random.Random(seed)
        self.owner = Client(address, name="owner", timeout=HANG)
        self.other = Client(address, name="other", timeout=HANG)
        self.futures = {}  # op id -> future
        self.counts = {}  # op id -> future of how many operations its key completed
        self.sent = defaultdict(set)  # op id -> outcomes that the server sent
        self.stop = threading.Event()
        self.refused = threading.Event()  # the disk has failed a request
        decode = encoding.decode_answer

        def spy(frame):
            message = decode(frame)
            for outcome in message.outcomes if isinstance(message, protocol.Outcomes) else ():
                self.sent[outcome.op_id].add((outcome.number, outcome.outcome, outcome.at_ms))
            if isinstance(message, protocol.Failure) and message.code == StoreFailed.code:
                self.refused.set()
            return message

        patch.setattr(encoding, "decode_answer", spy)
        self.thread = threading.Thread(target=self.run, name="load")

    def run(self):
        while not self.stop.wait(0.005):
            for _ in range(self.random.choice((1, 5, 20))):
                op_id = f"op-{len(self.futures)}"
                timeout = self.random.choice((0.05, 0.5, 1.5))
                self.futures[op_id] = self.owner.defer(
                    f"{op_id}'s key", timeout=timeout, op_id=op_id
                )
                if self.random.random() < 0.5:
                    self.counts[op_id] = self.other.complete_later(f"{op_id}'s key", VALUE)

    def check(self):
        """Check each operation, with a server whose disk is well."""
        refused = []
        for op_id, future in self.futures.items():
            ending = ending_of(future)
            answer = None
            if op_id in self.counts:
                answer = count_of(self.counts[op_id])
            if ending == "refused":
                refused.append(op_id)
                assert not answer, op_id
                assert not self.sent[op_id], op_id
                continue
            assert len(self.sent[op_id]) == 1, (op_id, self.sent[op_id])
            # One call completes it, or it expires: a call that was refused has done nothing.
            assert (ending == "completed") == (answer == 1), (op_id, ending, answer)
        for start in range(0, len(refused), AT_ONCE):
            asked = {op_id: self.owner.query_later(op_id) for op_id in refused[start:][:AT_ONCE]}
            states = {op_id: answer.result(HANG).state for op_id, answer in asked.items()}
            assert set(states.values()) == {"unknown"}, states


def ending_of(future):
    """Return how an operation ended."""
    try:
        assert future.result(HANG) == VALUE
    except OperationExpired:
        return "expired"
    except StoreFailed:
        return "refused"
    return "completed"


def count_of(future):
    """Return how many operations a call has completed; None if it was refused."""
    try:
        return future.result(HANG)
    except StoreFailed:
        return None


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_sigkill_on_a_faulty_disk(tmp_path, monkeypatch):
    """What was acknowledged ends once, as it was said; what was refused is not there."""
    seed = random.randrange(10**9)
    dice = random.Random(seed)
    server = ServerProcess(tmp_path / "data")
    plain = list(server._command)
    load = Load(server.address, seed, monkeypatch)
    load.thread.start()
    try:
        for number in range(ROUNDS):
            faulty = ["-m", "tests.testing.faulty_server", str(seed + number)]
            server._command = [plain[0], *faulty, *plain[3:]]
            server.start()
            load.refused.clear()
            assert load.refused.wait(HANG)
            load.stop.wait(dice.uniform(0.0, 0.6))
            server.kill()
    finally:
        load.stop.set()
        load.thread.join()
    server._command = plain
    with server:
        with load.owner, load.other:
            try:
                load.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
        assert server.end() == (0, "")
