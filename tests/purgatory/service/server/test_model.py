"""A server against a naive model: any requests, times, failing commits, crashes."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory.service.protocol import Failure
from tests.testing.step_server import StepServer, operation, result

KEYS = st.sampled_from("pqrs")
IDS = st.sampled_from("abcdefgh")


class ServerModel(RuleBasedStateMachine):
    """`ops`: id -> deadline, keys, need, values so far, outcome."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.server = StepServer(Path(self.directory.name) / "a.db")
        self.server.hello()
        self.ops = {}
        self.numbers = {}  # id -> number of its outcome
        self.failing = False
        self.due_from = 0  # nothing expires before: the disk has failed

    @property
    def now(self):
        return self.server.time.ms

    def transaction(self, change, **asked):
        """Apply a transaction to the model, unless its commit fails; True if it does not."""
        expired = {
            op_id
            for op_id, op in self.ops.items()
            if not op["end"] and op["due"] <= self.now and self.now >= self.due_from
        }
        before = {op_id: op | {"values": dict(op["values"])} for op_id, op in self.ops.items()}
        for op_id in expired:
            self.ops[op_id]["end"] = "expired"
        change()
        if self.failing and self.ops != before:
            self.ops = before
            for op_id in expired:
                self.ops[op_id]["due"] = self.now + 1  # not twice in one moment
            self.due_from = self.now + 1000
            return False
        if self.ops != before:
            self.due_from = 0
        return True

    def submit_model(self, op_id, keys, need, timeout_ms):
        if op_id not in self.ops:
            self.ops[op_id] = {
                "deadline": self.now + timeout_ms,
                "due": self.now + timeout_ms + 1,
                "keys": keys,
                "need": need,
                "values": {},
                "end": None,
            }

    def complete_model(self, key, value):
        count = 0
        for op in self.ops.values():
            if op["end"] or key not in op["keys"] or op["deadline"] < self.now:
                continue
            op["values"].setdefault(key, value)
            if len(op["values"]) >= op["need"]:
                op["end"] = "completed"
                op["by_key"] = key
                count += 1
        return count

    def cancel_model(self, op_id):
        op = self.ops.get(op_id)
        if op is None or op["end"] or op["deadline"] < self.now:
            return False
        op["end"] = "cancelled"
        return True

    @rule(
        op_id=IDS,
        keys=st.lists(KEYS, min_size=1, max_size=3, unique=True),
        need=st.integers(1, 3),
        timeout_ms=st.sampled_from((0, 1, 30, 5000)),
    )
    def submit(self, op_id, keys, need, timeout_ms):
        need = min(need, len(keys))
        answer = self.server.submit(
            operation(op_id, *keys, need=need, timeout_ms=timeout_ms, payload=op_id)
        )
        known = self.ops.get(op_id)
        done = self.transaction(lambda: self.submit_model(op_id, keys, need, timeout_ms))
        assert isinstance(answer, Failure) != done
        if done:
            state = known and [(0, self.ops[op_id]["end"] or "pending")]
            assert [(k.index, k.state) for k in answer.known] == (state or [])

    @rule(key=KEYS, value=st.integers(0, 9))
    def complete(self, key, value):
        answer = self.server.complete(key, value)
        counts = []
        if self.transaction(lambda: counts.append(self.complete_model(key, value))):
            assert answer.counts == counts
        else:
            assert answer.code == "store"

    @rule(op_id=IDS)
    def cancel(self, op_id):
        answer = self.server.cancel(op_id)
        done = []
        if self.transaction(lambda: done.append(self.cancel_model(op_id))):
            assert answer.done == done
        else:
            assert answer.code == "store"

    @rule(op_id=IDS)
    def acknowledge(self, op_id):
        if op_id in self.numbers:
            self.server.acknowledge(self.numbers[op_id])
            self.transaction(lambda: None)

    @rule(ms=st.sampled_from((1, 29, 31, 999, 1001, 6000)))
    def pass_time(self, ms):
        self.server.pass_time(ms)
        self.transaction(lambda: None)

    @rule(fails=st.booleans())
    def disk(self, fails):
        self.failing = fails
        if fails:
            self.server.faults.fail()
        else:
            self.server.faults.clear()

    @rule()
    def crash(self):
        self.server.faults.clear()
        self.failing = False
        self.server.crash()
        self.server.hello()
        self.due_from = 0
        for op in self.ops.values():
            op["due"] = op["deadline"] + 1
        self.transaction(lambda: None)

    @invariant()
    def agrees(self):
        for op_id in "abcdefgh":
            state = self.server.query(op_id)
            self.transaction(lambda: None)  # the query was a transaction, too
            op = self.ops.get(op_id)
            if op is None:
                assert state.state == "unknown"
                continue
            assert state.state == (op["end"] or "pending")
            assert state.deadline_ms == op["deadline"]
            if not op["end"]:
                assert sorted(state.keys_done) == sorted(op["values"] if op["need"] > 1 else ())
        waiting = [op for op in self.ops.values() if not op["end"]]
        assert self.server.state.purgatory.delayed == len(waiting)
        assert self.server.state.clients.record("c").count == self.server.state.total
        self.server.state.purgatory._check()

    @invariant()
    def tells(self):
        after = 0
        while some := self.server.fetch_outcomes(after=after):
            for outcome in some:
                op = self.ops[outcome.op_id]
                assert outcome.outcome == op["end"]
                assert self.numbers.setdefault(outcome.op_id, outcome.number) == outcome.number
                if op["end"] == "completed":
                    assert outcome.by_key == op["by_key"]
                    one = op["values"][op["by_key"]]
                    assert result(outcome) == (op["values"] if op["need"] > 1 else one)
                after = outcome.number

    def teardown(self):
        self.server.store.close()
        self.directory.cleanup()


ServerModel.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
)
TestServer = ServerModel.TestCase
