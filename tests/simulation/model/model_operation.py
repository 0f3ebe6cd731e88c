"""What the model knows of an operation, and of an event that is held."""

from typing import Any, NamedTuple

from purgatory.service.encoding import unpack
from purgatory.service.protocol import Submission

_NS_PER_MS = 1_000_000
#: Nanoseconds: an operation expires at the first of the server's ticks after its deadline.
TICK_NS = 250_000
_NIL = b"\xc0"
#: The state of a job that was due: see `is_answer`.
ANY_STATE = "*"


class End(NamedTuple):
    """How an operation has ended: as its client is told."""

    outcome: str
    at_ms: int
    by_key: str | None
    result: Any  # a dict of bytes if it needed several keys, else bytes, or None


class ModelOperation:
    """An operation, from its submission until the server forgets it."""

    def __init__(
        self, place: int, client: str, op_id: str, keys: tuple[str, ...], need: int
    ) -> None:
        self.place = place  # in the order of submissions
        self.client = client
        self.op_id = op_id
        self.keys = keys
        self.need = need
        self.kind = ""
        self.submitted_ms = 0
        self.deadline_ns = 0
        self.not_before_ns = 0  # it does not expire before: the commit of its expiry has failed
        self.values: dict[str, bytes] = {}  # of keys that have counted, if it needs several
        self.end: End | None = None
        self.seq = 0  # number of its outcome, when the server has given one
        self.is_acknowledged = False
        #: Whether its id may be used again: a dead job that was dropped.
        self.is_dropped = False

    @property
    def is_job(self) -> bool:
        """Whether it is a job."""
        return self.need == 0

    def is_of(self, client: str, submission: Submission) -> bool:
        """Whether a client submits it again: a job, or an operation that is none."""
        return self.client == client and self.is_job == (submission.need == 0)

    @property
    def deadline_ms(self) -> int:
        """The millisecond of its deadline."""
        return self.deadline_ns // _NS_PER_MS

    @property
    def due_ns(self) -> int:
        """The tick at which it expires."""
        return max((self.deadline_ns // TICK_NS + 1) * TICK_NS, self.not_before_ns)

    def waits_for(self, key: str, at_ms: int) -> bool:
        """Whether an event of one of its keys counts at a time."""
        return self.end is None and key not in self.values and at_ms <= self.deadline_ms

    @property
    def state(self) -> str:
        """Its state, as a client is told that submits it again."""
        if self.end is None:
            return "pending"
        return ANY_STATE if self.is_job else self.end.outcome

    def __repr__(self) -> str:
        return (
            f"{self.op_id} of {self.client} {self.keys} need={self.need} "
            f"deadline={self.deadline_ms} {self.end}"
        )


class HeldEvent(NamedTuple):
    """An event that also counts for operations submitted later, until `until_ms` inclusive."""

    number: int
    at_ms: int
    until_ms: int
    units: int  # for how many more operations; -1: for any number
    value: bytes


def is_result(expected: Any, stored: bytes | None) -> bool:
    """Whether a result, as the server has it, is the one of an `End`."""
    if stored is None or stored == _NIL:
        return expected is None or expected == _NIL
    if isinstance(expected, dict):
        values: dict[str, Any] = unpack(bytes(stored))
        return values == {key: unpack(value) for key, value in expected.items()}
    return bool(bytes(stored) == expected)


def is_answer(expected: Any, found: Any) -> bool:
    """Whether decoded answers are the same, but for what is open."""
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(is_answer, expected, found))
    return bool(expected in (ANY_STATE, found))
