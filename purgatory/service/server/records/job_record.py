"""JobRecord: a job in a server's memory, until forgotten. Store thread alone."""

from typing import Final

from purgatory.service.protocol import own_key
from purgatory.service.store.rows import Options

#: The states of a job: indices of JOB_STATES.
SCHEDULED: Final = 0
READY: Final = 1
RUNNING: Final = 2
RETRYING: Final = 3
DONE: Final = 4
DEAD: Final = 5
CANCELLED: Final = 6
STATE_COUNT: Final = 7
#: By state: the state of the operation, for clients.
OUTCOMES_OF_JOBS: Final = (
    "pending",
    "pending",
    "pending",
    "pending",
    "completed",
    "failed",
    "cancelled",
)

_NO_TAGS: Final[tuple[str, ...]] = ()


class JobRecord:
    """A job of the operation `number`.

    `due_ms`: of the job, or of its next attempt, in Unix milliseconds. `JobIndex` alone changes
    `state` and `due_ms`. `keys` cancel the job.
    """

    __slots__ = (
        "began_ms",
        "client",
        "due_ms",
        "keys",
        "kind",
        "number",
        "op_id",
        "options",
        "state",
        "submitted_ms",
    )

    def __init__(
        self,
        number: int,
        op_id: str,
        client: str,
        kind: str,
        due_ms: int,
        options: Options | None = None,
    ) -> None:
        self.number: int = number
        self.op_id: str = op_id
        self.client: str = client
        self.kind: str = kind
        self.due_ms: int = due_ms
        self.options: Options | None = options
        self.state: int = SCHEDULED
        self.submitted_ms: int = 0
        self.keys: tuple[str, ...] = ()
        self.began_ms: int = 0  # the latest attempt in this run; 0: none

    @property
    def tags(self) -> tuple[str, ...]:
        """Its distinct tags."""
        return _NO_TAGS if self.options is None else self.options.tags

    @property
    def priority(self) -> int:
        """Its priority, from -10 to 10."""
        return 0 if self.options is None else self.options.priority

    @property
    def has_unless(self) -> bool:
        """Whether keys cancel the job."""
        return self.keys != (own_key(self.op_id),)

    @property
    def is_alive(self) -> bool:
        """Whether it is to run, or runs."""
        return self.state < DONE
