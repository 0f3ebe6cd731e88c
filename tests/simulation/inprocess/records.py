"""Records: what the threads of a world have asked a timer or a purgatory for, and what came of it.

Times are the scheduler's, in nanoseconds.
"""

from dataclasses import dataclass, field
from typing import Any

#: A moment that has not come.
NEVER = -1


@dataclass(slots=True)
class Call:
    """One call: when it began and returned, and what it returned."""

    called_ns: int
    returned_ns: int = NEVER
    answer: Any = None
    #: The delay or timeout that it set, if it sets one.
    delay_ns: int = 0

    @property
    def has_returned(self) -> bool:
        """Whether it has."""
        return self.returned_ns != NEVER


@dataclass(slots=True, eq=False)
class TaskRecord:
    """A task of a timer."""

    name: str
    #: The calls that scheduled it, added it again, or moved it.
    adds: list[Call] = field(default_factory=list)
    moves: list[Call] = field(default_factory=list)
    cancels: list[Call] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    task: Any = None

    @property
    def times_cancelled(self) -> int:
        """How many calls said that they have cancelled it."""
        return sum(call.answer is True for call in self.cancels)


@dataclass(slots=True, eq=False)
class KeyEventRecord(Call):
    """A completion of a key, or its failure; `number` is its value."""

    number: int = 0
    key: str = ""
    failed: bool = False
    limit: int | None = None
    hold_ns: int = 0
    #: It was posted to the loop.
    is_posted: bool = False


@dataclass(slots=True, eq=False)
class WaitRecord(Call):
    """An operation of a purgatory; its submission is the call."""

    name: str = ""
    keys: tuple[str, ...] = ()
    need: int = 1
    extensions: list[Call] = field(default_factory=list)
    #: Calls that end it by name, and say whether they did.
    enders: list[Call] = field(default_factory=list)
    #: What its callbacks said: an outcome, and when, in order.
    told: list[tuple[str, int]] = field(default_factory=list)
    #: No callback said it: it was read when all was at rest.
    is_read_late: bool = False
    #: Numbers of the events that completed it.
    values: tuple[int, ...] = ()
    #: The operation, and its future if it has one.
    handle: Any = None
    future: Any = None
    #: For operations with a condition: whether it is satisfied.
    is_satisfied: bool = False
    satisfied_ns: int = 0
    is_checking: bool = False
    #: Its submission has raised.
    is_refused: bool = False

    @property
    def may_belong_to_none(self) -> bool:
        """Whether it was refused, or a call may have ended it before it was submitted."""
        return self.is_refused or any(
            call.answer is True and (not self.has_returned or call.called_ns <= self.returned_ns)
            for call in self.enders
        )
