"""SIGKILL at random moments under load: what the server has answered holds.

`PURGATORY_ROUNDS` is how often; a failure prints the seed.
"""

import os
import random
import threading
import time
from collections import defaultdict

import pytest

from purgatory import OperationCancelled, OperationExpired
from purgatory.service import Client, RequestAbandoned, RequestTimeout, encoding, protocol
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "4"))
# Seconds by which two processes' clocks may differ: both read whole milliseconds.
ROUNDING = 0.002
# Seconds: on a busy machine several servers in a row may be killed before they answer anything.
PATIENCE_S = HANG * max(1, ROUNDS // 4)
# Seconds, longer than any operation is submitted for.
LONG = 2.5
# Of what was sent to one server after the other, each of which was killed before it answered.
ABANDONED = ("abandoned", None)


class RandomLoad:
    """Defers, completes, extends and cancels in a thread, and records all that the server sends.

    Some events come before the operation that waits for them, and are held for one of two.
    """

    def __init__(self, address: str, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.owner = Client(address, name="owner", timeout=PATIENCE_S)
        self.other = Client(address, name="other", timeout=PATIENCE_S)
        self.futures = {}  # op id -> future, deferred at, timeout
        self.resolved_at = {}
        self.sent = defaultdict(set)  # op id -> all outcomes that the server ever sent of it
        self.completed = []  # op id, value, future of the count
        self.cancelled = []  # op id, future
        self.extended = {}  # op id -> timeout, called at, future
        self.early = []  # key, value, future of the count: no operation waits for it yet
        self.held = []  # value, and the futures of two operations that waited for it
        self.stop = threading.Event()
        decode = encoding.decode_answer

        def spy(frame):
            message = decode(frame)
            for outcome in message.outcomes if isinstance(message, protocol.Outcomes) else ():
                self.resolved_at.setdefault(outcome.op_id, time.monotonic())
                self.sent[outcome.op_id].add((outcome.number, outcome.outcome, outcome.at_ms))
            return message

        # All outcomes are the owner's: the other client submits nothing.
        patch.setattr(encoding, "decode_answer", spy)
        self.thread = threading.Thread(target=self.run, name="load")

    def run(self):
        numbers = iter(range(10**9))
        while not self.stop.is_set():
            burst = [self.defer(next(numbers)) for _ in range(self.random.choice((1, 5, 40)))]
            for op_id in burst:
                dice = self.random.random()
                if dice < 0.4:
                    value = self.random.randrange(10**6)
                    answer = self.other.complete_later(f"key of {op_id}", value)
                    self.completed.append((op_id, value, answer))
                elif dice < 0.5:
                    self.cancelled.append((op_id, self.other.cancel_later(op_id)))
                elif dice < 0.6:
                    answer = self.other.extend_later(op_id, LONG)
                    self.extended[op_id] = (LONG, time.monotonic(), answer)
            self.hold(next(numbers))
            self.stop.wait(0.004)  # paces the load, and lets the other threads run

    def hold(self, number):
        """Hold an event for one operation, and submit two for each that is held by now."""
        key, value = f"early {number}", self.random.randrange(10**6)
        answer = self.other.complete_later(key, value, limit=1, hold=100 * HANG)
        self.early.append((key, value, answer))
        while self.early and self.early[0][2].done():
            self.submit_two(*self.early.pop(0))

    def submit_two(self, key, value, answer):
        """Submit two operations of which the first gets what is held."""
        if answer_of(answer) is None:
            return  # whether it is held is not known
        pair = [self.owner.defer(key, timeout=timeout) for timeout in (HANG, 0.0)]
        self.held.append((value, pair))

    def defer(self, number):
        op_id = f"op-{number}"
        timeout = self.random.choice((0.0, 0.05, 0.5, 2.0))
        keys = [f"key of {op_id}", "a key that is never completed"]
        deferred_at = time.monotonic()
        future = self.owner.defer(*keys, timeout=timeout, op_id=op_id)
        self.futures[op_id] = (future, deferred_at, timeout)
        return op_id

    def check(self):
        """Check the contract for each operation, when all have ended."""
        for early in self.early:
            self.submit_two(*early)
        for op_id in self.futures:
            self.check_operation(op_id)
        for value, (first, second) in self.held:
            assert outcome_of(first) in (("completed", value), ABANDONED)
            if outcome_of(first) != ABANDONED:
                assert outcome_of(second) in (("expired", None), ABANDONED)
        for op_id, value, answer in self.completed:
            if answer_of(answer):
                assert outcome_of(self.futures[op_id][0]) in (("completed", value), ABANDONED)
        for op_id, answer in self.cancelled:
            if answer_of(answer):
                assert outcome_of(self.futures[op_id][0]) in (("cancelled", None), ABANDONED)

    def check_operation(self, op_id):
        """Check that an operation has one outcome, and has not expired early."""
        future, deferred_at, timeout = self.futures[op_id]
        outcome = outcome_of(future)
        if outcome == ABANDONED:
            assert len(self.sent[op_id]) <= 1, (op_id, self.sent[op_id])
            return
        assert len(self.sent[op_id]) == 1, (op_id, self.sent[op_id])
        if outcome[0] == "expired":
            extended = answer_of(self.extended[op_id][2]) if op_id in self.extended else False
            if extended is None:
                return
            if extended:
                timeout, deferred_at, _ = self.extended[op_id]
            waited = self.resolved_at[op_id] - deferred_at
            assert waited >= timeout - ROUNDING, (op_id, waited, timeout)


def outcome_of(future):
    try:
        return "completed", future.result(HANG)
    except OperationExpired:
        return "expired", None
    except OperationCancelled:
        return "cancelled", None
    except RequestAbandoned:
        return ABANDONED


def answer_of(answer):
    """Return what a call is answered with; None if its server was killed again and again."""
    try:
        return answer.result(HANG)
    except RequestAbandoned:
        return None


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_sigkill_under_load(tmp_path, monkeypatch):
    """Every acknowledged operation has one outcome, and every acknowledged change holds."""
    seed = random.randrange(10**9)
    dice = random.Random(seed)
    with ServerProcess(tmp_path / "data") as serve:
        load = RandomLoad(serve.address, seed, monkeypatch)
        load.thread.start()
        try:
            for _ in range(ROUNDS):
                load.stop.wait(dice.uniform(0.05, 0.8))
                serve.kill()
                serve.start()
        finally:
            load.stop.set()
            load.thread.join()
        try:
            load.owner.flush(HANG)
            load.check()
        except (AssertionError, RequestTimeout) as error:
            raise AssertionError(f"seed {seed}") from error
        assert len(load.futures) > 50 * ROUNDS
        assert len(load.held) > 2 * ROUNDS
        stats = load.owner.stats()
        assert stats["pending"] == 0
        load.owner.close()
        load.other.close()
        code, errors = serve.end()
        assert (code, errors) == (0, "")
