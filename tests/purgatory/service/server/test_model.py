"""A server against a naive model: any requests, times, failing commits, crashes."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from purgatory.service.encoding import unpack
from purgatory.service.protocol import Failure, Query
from tests.testing.naive_memory import naive_memory
from tests.testing.step_server import StepServer, operation, result

KEYS = st.sampled_from("pqrs")
IDS = st.sampled_from("abcdefgh")


class ServerModel(RuleBasedStateMachine):
    """`ops`: id -> deadline, keys, need, values so far, outcome. `held`: key -> event."""

    portion = None

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.server = StepServer(Path(self.directory.name) / "a.db", portion=self.portion)
        self.server.hello()
        self.ops = {}
        self.held = {}
        self.changes = 0  # so that a change to the same is one, too
        self.numbers = {}  # id -> number of its outcome
        self.failing = False
        self.due_from = 0  # nothing expires before: the disk has failed

    @property
    def now(self):
        return self.server.time.ms

    @property
    def stamp(self):
        """The time that the server gave the last change: the clock's, or a little later."""
        return self.server.state.stamp.now_ms

    def transaction(self, change):
        """Apply a transaction to the model, unless its commit fails; True if it does not."""
        expired = {
            op_id
            for op_id, op in self.ops.items()
            if not op["end"] and op["due"] <= self.now and self.now >= self.due_from
        }
        before = {op_id: op | {"values": dict(op["values"])} for op_id, op in self.ops.items()}
        held = {key: dict(event) for key, event in self.held.items()}
        for op_id in expired:
            self.ops[op_id]["end"] = "expired"
        if self.now >= self.due_from:
            self.held = {k: event for k, event in self.held.items() if event["until"] >= self.now}
        change()
        if self.failing and (self.ops, self.held) != (before, held):
            again = expired | {n for n in before if before[n]["due"] != self.ops[n]["due"]}
            self.ops, self.held = before, held
            for op_id in again:
                # Not twice in one moment.
                self.ops[op_id]["due"] = max(self.ops[op_id]["due"], self.now + 1)
            self.due_from = self.now + 1000
            return False
        if (self.ops, self.held) != (before, held):
            self.due_from = 0
        return True

    def submit_model(self, op_id, keys, need, timeout_ms):
        if op_id in self.ops:
            return
        self.ops[op_id] = op = {
            "deadline": self.stamp + timeout_ms,
            "due": self.stamp + timeout_ms + 1,
            "keys": keys,
            "need": need,
            "values": {},
            "end": None,
        }
        for event in sorted(self.held.values(), key=lambda event: event["number"]):
            if event["until"] >= self.stamp:
                self.count(op, event)
        self.held = {key: event for key, event in self.held.items() if event["units"]}

    def count(self, op, event):
        """Let an event count for an operation; True if it completes it."""
        key = event["key"]
        if op["end"] or key not in op["keys"] or key in op["values"]:
            return False
        if op["deadline"] < self.stamp or not event["units"]:
            return False
        event["units"] -= 1
        op["values"][key] = event["value"]
        if len(op["values"]) < op["need"]:
            return False
        op["end"], op["by_key"] = "completed", key
        return True

    def complete_model(self, key, value, limit, hold_ms):
        self.changes += 1
        event = {
            "key": key,
            "value": value,
            "units": limit or 1000,
            "until": self.stamp + hold_ms,
            "number": self.changes,
        }
        count = sum(self.count(op, event) for op in self.ops.values())
        self.held.pop(key, None)
        if hold_ms and event["units"]:
            self.held[key] = event
        return count

    def fail_model(self, key, message):
        failed = [
            op
            for op in self.ops.values()
            if not op["end"]
            and key in op["keys"]
            and key not in op["values"]
            and op["deadline"] >= self.stamp
        ]
        for op in failed:
            op["end"], op["error"] = "failed", message
        return len(failed)

    def extend_model(self, op_id, timeout_ms):
        op = self.ops.get(op_id)
        if op is None or op["end"] or op["deadline"] < self.stamp:
            return False
        self.changes += 1
        op["deadline"] = self.stamp + timeout_ms
        op["due"] = max(op["deadline"], self.now) + 1
        op["extended"] = self.changes
        return True

    def cancel_model(self, op_id):
        op = self.ops.get(op_id)
        if op is None or op["end"] or op["deadline"] < self.stamp:
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

    @rule(
        key=KEYS,
        value=st.integers(0, 9),
        limit=st.sampled_from((None, None, 1, 2)),
        hold_ms=st.sampled_from((0, 0, 1, 30, 5000)),
    )
    def complete(self, key, value, limit, hold_ms):
        answer = self.server.complete(key, value, limit, hold_ms)
        counts = []
        if self.transaction(lambda: counts.append(self.complete_model(key, value, limit, hold_ms))):
            assert answer.counts == counts
        else:
            assert answer.code == "store"

    @rule(key=KEYS, message=st.sampled_from(("", "why")))
    def fail(self, key, message):
        answer = self.server.fail(key, "Error", message)
        counts = []
        if self.transaction(lambda: counts.append(self.fail_model(key, message))):
            assert answer.counts == counts
        else:
            assert answer.code == "store"

    @rule(op_id=IDS, timeout_ms=st.sampled_from((0, 1, 30, 5000)))
    def extend(self, op_id, timeout_ms):
        answer = self.server.extend(op_id, timeout_ms)
        done = []
        if self.transaction(lambda: done.append(self.extend_model(op_id, timeout_ms))):
            assert answer.done == done
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
        states = self.server.ask(Query, list("abcdefgh")).states
        self.transaction(lambda: None)  # the query was a transaction, too
        for op_id, state in zip("abcdefgh", states, strict=True):
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
        held = self.server.state.held.by_key
        assert {key: unpack(event.value) for key, event in held.items()} == {
            key: event["value"] for key, event in self.held.items()
        }
        assert self.server.state.clients.record("c").count == self.server.state.total
        self.server.state.purgatory._check()
        assert self.server.state.memory_bytes == naive_memory(self.server.state)

    @invariant()
    def tells(self):
        after = 0
        while some := self.server.fetch_outcomes(after=after):
            for outcome in some:
                op = self.ops[outcome.op_id]
                assert outcome.outcome == op["end"]
                assert self.numbers.setdefault(outcome.op_id, outcome.number) == outcome.number
                if op["end"] == "failed":
                    assert outcome.by_key is None
                    assert result(outcome) == ["Error", op["error"]]
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


class PortionsModel(ServerModel):
    """An event ends one operation in a transaction."""

    portion = 1


PortionsModel.TestCase.settings = ServerModel.TestCase.settings
TestPortions = PortionsModel.TestCase
