"""Job: what a handler of a worker gets. Immutable; any thread may use it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is due, leased to this worker.

    `id` is the same at each attempt; `attempt` counts from 1. `token` grows with each lease of any
    job: storage that refuses tokens below the highest that it has seen of a job refuses a worker
    that has lost its lease. Times are Unix milliseconds; `due_ms`: when it should have begun.
    """

    id: str
    kind: str
    payload: Any
    attempt: int
    token: int
    submitted_ms: int
    due_ms: int
