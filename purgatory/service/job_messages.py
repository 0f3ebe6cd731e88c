"""The messages about jobs and their leases: part of the protocol, see `purgatory.service.protocol`.

A *job* is an operation that was submitted with `need` 0. When it expires, its outcome is not sent
to its client but leased to a worker of that name.
"""

from enum import IntEnum
from typing import Final

from msgspec import Raw, Struct

from purgatory.service.values import Value

_NOTHING: Final = Raw(b"\xc0")


class How(IntEnum):
    """How a worker ends a lease."""

    DONE = 0
    FAILED = 1  # to be tried again, or given up after the last attempt
    RETURNED = 2  # not begun, or not finished; the attempt does not count


class Lease(Struct, array_like=True, gc=False):
    """A lease: the number of a job, and the token with which it was given."""

    number: int
    token: int


class LeaseEnd(Struct, array_like=True, gc=False):
    """The end of a lease. `delay_ms` and `error`: of one that FAILED."""

    number: int
    token: int
    how: int
    delay_ms: int = 0
    error: str = ""


class Work(Struct, array_like=True, tag=12):
    """Have jobs of some kinds leased to this connection, at most `room` at a time.

    `kinds`: kind -> how many attempts a job has. Each `Work` replaces the one before. `detached`:
    leases last for their time, also when this connection has ended; any connection of the client
    keeps and ends them; and `room` is how many more jobs are leased, whatever became of others.
    """

    seq: int
    kinds: dict[str, int]
    room: int
    lease_ms: int
    detached: bool = False


class Keep(Struct, array_like=True, tag=13):
    """Have leases last for another `lease_ms`, from now."""

    seq: int
    leases: list[Lease]


class Finish(Struct, array_like=True, tag=14):
    """End leases."""

    seq: int
    ends: list[LeaseEnd]


class ReadDead(Struct, array_like=True, tag=15):
    """Ask for the client's jobs that were given up, beyond number `after`."""

    seq: int
    after: int = 0


class EndDead(Struct, array_like=True, tag=16):
    """Have jobs that were given up tried again, from the first attempt; `drop`: forget them."""

    seq: int
    numbers: list[int]
    drop: bool = False


class Working(Struct, array_like=True, tag=43):
    """Answer to `Work`."""

    seq: int


class Kept(Struct, array_like=True, tag=44):
    """Answer to `Keep`: for each whether it is held; False: it has ended, and is another's now."""

    seq: int
    done: list[bool]


class Finished(Struct, array_like=True, tag=45):
    """Answer to `Finish`: for each whether it was held until now; that is on disk."""

    seq: int
    done: list[bool]


class DeadJob(Struct, array_like=True, gc=False):
    """A job that was given up, with the error of its last attempt."""

    number: int
    op_id: str
    kind: str
    attempts: int
    at_ms: int
    error: str = ""
    submitted_ms: int = 0
    deadline_ms: int = 0
    payload: Value = _NOTHING


class DeadJobs(Struct, array_like=True, tag=46):
    """Answer to `ReadDead`: the first ones, in order of their numbers; none: there are no more."""

    seq: int
    jobs: list[DeadJob]


class DeadEnded(Struct, array_like=True, tag=47):
    """Answer to `EndDead`: for each whether it was there; that is on disk."""

    seq: int
    done: list[bool]


class LeasedJob(Struct, array_like=True, gc=False):
    """A job that is leased. `attempt` counts from 1; `token` grows with each lease of any job."""

    number: int
    token: int
    op_id: str
    kind: str
    attempt: int
    submitted_ms: int
    deadline_ms: int
    payload: Value = _NOTHING


class Jobs(Struct, array_like=True, tag=66):
    """Jobs that are leased to this connection from now on, for the `lease_ms` that it asked for."""

    jobs: list[LeasedJob]
