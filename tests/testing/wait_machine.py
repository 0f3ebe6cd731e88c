"""WaitMachine: drives a system and `WaitModel` with the same calls, and compares.

A *system* is a purgatory, an AsyncPurgatory or a server behind the methods of `WaitSystem`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from purgatory import OperationExpired
from tests.testing.wait_model import Wait, WaitModel

KEYS = st.integers(0, 3)
TIMES_MS = st.one_of(st.integers(0, 5), st.integers(6, 300), st.integers(301, 10**6))
INDEX = st.integers(0, 10**6)


class WaitSystem(Protocol):
    """What a machine drives. A *subject* stands for an operation: a future, a task, an id."""

    def submit(self, keys: list[int], timeout_ms: int, need: int) -> Any:
        """Submit an operation, and return its subject."""

    def extend(self, subject: Any, timeout_ms: int) -> bool:
        """Extend an operation."""

    def complete(self, key: int, value: int, limit: int | None, hold_ms: int) -> int:
        """Complete a key."""

    def fail(self, key: int, message: str) -> int:
        """Fail a key with an error of that message."""

    def cancel(self, subject: Any) -> bool:
        """Cancel an operation."""

    def advance(self, ms: int) -> None:
        """Move the clock, and end what is due."""

    def ending(self, subject: Any) -> tuple[str | None, Any]:
        """Return the outcome, and the result or the error's message; None for neither."""

    def figures(self) -> tuple[int, int]:
        """Return how many operations are pending, and how many events are held."""

    def check(self) -> None:
        """Check the system's own invariants."""

    def close(self) -> None:
        """End it."""


class WaitMachine(RuleBasedStateMachine):
    """The rules for all systems. `make_system` is for a subclass to define."""

    #: How long after its deadline an operation expires.
    grace_ms = 0

    def make_system(self) -> WaitSystem:
        """Return a new system."""
        raise NotImplementedError

    @initialize()
    def make(self):
        """Begin with nothing."""
        self.system = self.make_system()
        self.model = WaitModel(self.grace_ms)
        self.subjects: list[Any] = []  # one for each wait of the model

    def before_call(self):
        """Prepare for the next call."""

    def pick(self, index: int) -> tuple[Any, Wait]:
        """Return a subject and its wait."""
        place = index % len(self.subjects)
        return self.subjects[place], self.model.waits[place]

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=3, unique=True),
        timeout_ms=TIMES_MS,
        need=st.integers(1, 3),
    )
    def submit(self, keys: list[int], timeout_ms: int, need: int):
        """Submit an operation."""
        self.before_call()
        need = min(need, len(keys))
        self.model.expire_if_due(self.model.submit(tuple(keys), timeout_ms, need))
        self.subjects.append(self.system.submit(keys, timeout_ms, need))

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX, timeout_ms=TIMES_MS)
    def extend(self, index: int, timeout_ms: int):
        """Extend one."""
        self.before_call()
        subject, wait = self.pick(index)
        expected = self.model.extend(wait, timeout_ms)
        self.model.expire_if_due(wait)
        assert self.system.extend(subject, timeout_ms) is expected

    @rule(
        key=KEYS,
        value=st.integers(0, 9),
        limit=st.one_of(st.none(), st.integers(1, 3)),
        hold_ms=st.one_of(st.just(0), TIMES_MS),
    )
    def complete(self, key: int, value: int, limit: int | None, hold_ms: int):
        """Complete a key."""
        self.before_call()
        expected = self.model.complete(key, value, limit, hold_ms)
        assert self.system.complete(key, value, limit, hold_ms) == expected

    @rule(key=KEYS, message=st.sampled_from(("", "why")))
    def fail(self, key: int, message: str):
        """Fail a key."""
        self.before_call()
        assert self.system.fail(key, message) == self.model.fail(key, message)

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX)
    def cancel(self, index: int):
        """Cancel one."""
        self.before_call()
        subject, wait = self.pick(index)
        assert self.system.cancel(subject) is self.model.cancel(wait)

    @rule(ms=TIMES_MS)
    def advance(self, ms: int):
        """Move the clock."""
        self.model.advance(ms)
        self.system.advance(ms)

    @precondition(lambda self: self.subjects)
    @rule(index=INDEX, early_ms=st.integers(-1, 1))
    def advance_to_a_deadline(self, index: int, early_ms: int):
        """Move the clock to a deadline, or a millisecond before or after."""
        ms = self.pick(index)[1].deadline_ms - early_ms - self.model.now_ms
        if ms >= 0:
            self.advance(ms)

    @precondition(lambda self: self.model.held())
    @rule(early_ms=st.integers(-1, 1))
    def advance_to_the_end_of_a_hold(self, early_ms: int):
        """Move the clock to the last moment of a held event, or around it."""
        first_ms = min(held.until_ms for held in self.model.held().values())
        self.advance(max(0, first_ms - early_ms - self.model.now_ms))

    @invariant()
    def agrees(self):
        """Compare all that can be seen."""
        self.system.check()
        assert self.system.figures() == self.expected_figures()
        for subject, wait in zip(self.subjects, self.model.waits, strict=True):
            assert self.system.ending(subject) == expected_ending(wait)

    def expected_figures(self) -> tuple[int, int]:
        """Return what `WaitSystem.figures` should."""
        return len(self.model.pending()), len(self.model.held())

    def teardown(self):
        """End the system."""
        if hasattr(self, "system"):  # not if hypothesis stops before the first rule
            self.system.close()


def expected_ending(wait: Wait) -> tuple[str | None, Hashable | dict[Hashable, Any]]:
    """Return what `WaitSystem.ending` should."""
    if wait.outcome == "completed":
        return wait.outcome, wait.result
    return wait.outcome, wait.error


def future_ending(future: Any) -> tuple[str | None, Any]:
    """Return what `WaitSystem.ending` should, of a future of either kind or of a task."""
    if not future.done():
        return None, None
    if future.cancelled():
        return "cancelled", None
    error = future.exception()
    if error is None:
        return "completed", future.result()
    return ("expired", None) if isinstance(error, OperationExpired) else ("failed", str(error))


def run(machine: type[WaitMachine], examples: int = 60) -> None:
    """Run a machine as a test."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
