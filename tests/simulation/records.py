"""Records: what the programs of a world have asked for, and what they were told."""

from dataclasses import dataclass, field
from typing import Any

#: A moment that has not come.
NEVER = -1


@dataclass(slots=True)
class CallRecord:
    """A request: moments of the world's clock, and the answer, None if there is none yet."""

    called_ns: int
    replied_ns: int = NEVER
    answer: Any = None
    #: The server said that it did nothing of the kind.
    refused: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether the answer is known."""
        return self.replied_ns != NEVER


@dataclass(slots=True)
class EventRecord(CallRecord):
    """A completion of a key, or its failure; `value` is given to no other event."""

    key: str = ""
    value: int = 0
    failed: bool = False
    limit: int | None = None
    hold_ns: int = 0


@dataclass(slots=True)
class ExtensionRecord(CallRecord):
    """An extension of an operation's timeout."""

    timeout_ns: int = 0


@dataclass(slots=True)
class OperationRecord(CallRecord):
    """An operation; its first submission is the call. It can be submitted again."""

    op_id: str = ""
    client: str = ""
    keys: tuple[str, ...] = ()
    need: int = 1
    timeout_ns: int = 0
    extensions: list[ExtensionRecord] = field(default_factory=list)
    cancels: list[CallRecord] = field(default_factory=list)
    submissions: int = 1
    refusals: int = 0
    #: How it ended, and the result, as the client was told first.
    outcome: tuple[str, Any] | None = None
    told_ns: int = NEVER
    #: When an outcome came first, also if the handler raised then.
    arrived_ns: int = NEVER
    times_told: int = 0
