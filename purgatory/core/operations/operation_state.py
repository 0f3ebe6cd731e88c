"""OperationState: the fields and hooks of a delayed operation; its owner; Outcome: how it ends.

A base of `DelayedOperation`, so that `outcome_race` need not import it. Any thread.
"""

import enum
from collections.abc import Hashable
from datetime import timedelta
from typing import Any, ClassVar, Final

from _purgatory_cpython import at_exit
from _purgatory_cpython.fork import FORK_COUNTER
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from purgatory.errors import PurgatoryForked
from timingwheel import TimerTask
from timingwheel.lowlevel import (
    ATOMIC_SECTIONS,
    LOCKED_SECTIONS,
    delay_to_ns,
    enter_section,
    keep_for_ever,
    leave_section,
    prepare_task,
    shared_lock,
)


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# Bound once: a look into an enum is half of the work for an operation.
COMPLETED: Final = Outcome.COMPLETED
FAILED: Final = Outcome.FAILED
EXPIRED: Final = Outcome.EXPIRED
CANCELLED: Final = Outcome.CANCELLED
for outcome in Outcome:
    keep_for_ever(outcome)

# Stages of finishing, in order, each marked in the section that does it: after an interrupt,
# a thread neither skips nor repeats a stage.
UNFINISHED: Final = 0
COUNTED: Final = 1  # in the figures of the watch lists
JOURNALED: Final = 2
RELEASED: Final = 3  # off wheel and watch lists: callbacks may run
ON_COMPLETE_CALLED: Final = 4  # expired: on_expiration is next
CALLBACKS_DONE: Final = 5

# What an event of a watch key does to an operation.
UNAFFECTED: Final = 0
PROGRESSED: Final = 1  # more keys are needed
WON: Final = 2  # the caller calls `outcome_race.finalize`
ENDED: Final = 3
IN_DOUBT: Final = -2  # another thread is checking the condition, and will know: see `Claim`

# See `TimerTask`.
_HOOKS: Final = ("run", "try_complete", "on_complete", "on_expiration", "on_cancel", "on_failure")

# Bound once: compiled code looks up no module's dict.
_shared_lock: Final = shared_lock
_enter_section: Final = enter_section
_leave_section: Final = leave_section


class Claim:
    """An event on its way to an operation, with a unit if the event is limited.

    `has_unit`: guarded by the lock of `HeldEvents`. `is_left`: another thread was checking the
    condition; that thread checks again, and settles the claim. Written in a section.
    """

    def __init__(self) -> None:
        self.has_unit: bool = False
        self.is_left: bool = False

    def settle(self, effect: int) -> None:
        """Use the unit, or return it if the operation was unaffected. Idempotent."""
        raise NotImplementedError


class OperationOwner:
    """The part of the purgatory known to operations.

    Operations do not refer to the purgatory: a dropped purgatory is freed, even with pending
    operations. No method is called while a lock is held. `first`: the original of a copy; see
    `PurgatoryParts`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: OperationOwner | None = None
        self._fork_number = i64(FORK_COUNTER.value)
        # Whether pending operations are kept from the cycle collector: where sections are atomic,
        # once a reaper runs. Its thread refers to the timer, and so to the operations: no operation
        # is garbage. Halves a full collection: 37 instead of 73 ms with 300,000 operations.
        self.untracks: bool = False

    def enable_gc_untracking(self) -> None:
        """Untrack what is submitted from now on. Only once the timer's reaper has started."""
        self.untracks = ATOMIC_SECTIONS

    @property
    def forked(self) -> bool:
        """Whether this owner is a forked child's copy."""
        return self._fork_number != FORK_COUNTER.value

    def check_not_forked(self) -> None:
        """Raise PurgatoryForked in a forked child."""
        if self._fork_number != FORK_COUNTER.value:
            raise PurgatoryForked(
                f"purgatory {self.name!r} was made before fork; make one in this process"
            )

    def warn_if_not_driven(self) -> None:
        """Warn, once, if no thread drives the purgatory's timer: nothing expires."""
        raise NotImplementedError

    def record_outcome(self, operation: "OperationState", outcome: Outcome) -> None:
        """Take a finished operation off all watch lists; count and journal its outcome.

        Idempotent, also after an interrupt.
        """
        raise NotImplementedError

    def report(self, error: BaseException, operation: "OperationState") -> None:
        """Report an exception of user code."""
        raise NotImplementedError

    def extend(self, operation: "OperationState", timeout: float | timedelta) -> bool:
        """See `Purgatory.extend`."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class OperationState(TimerTask):
    """The fields of an operation, and the hooks that its subclasses define.

    Names begin with `_op_`, against clashes with users' subclasses.
    """

    __slots__ = (
        "_op_busy",
        "_op_has_condition",
        "_op_keys",
        "_op_lock",
        "_op_outcome",
        "_op_owner",
        "_op_recheck",
        "_op_sequence",
        "_op_stage",
    )

    _tt_hooks: ClassVar[tuple[str, ...]] = _HOOKS

    _op_sequence: object  # see `WatchShard.sequence_of`

    def __init__(self, timeout: float | timedelta) -> None:
        try:
            super().__init__(timeout)
        except (TypeError, ValueError) as error:
            raise timeout_error(error, timeout) from None
        self._op_keys: tuple[Hashable, ...] = ()  # written by the watch lists
        self._op_owner: OperationOwner | None = None
        self._op_has_condition = True
        # Guards the next three fields where sections are not atomic. A leaf lock. Re-entrant: a
        # finalizer that ends the operation may run under the lock, before any change.
        self._op_lock: Final[Any] = None if ATOMIC_SECTIONS else _shared_lock(self)
        self._op_outcome: Outcome | None = None
        self._op_busy = False  # a thread runs its actions
        self._op_recheck = False  # action: call try_complete
        # Written by the thread that set the outcome; from RELEASED on by the busy thread.
        self._op_stage = UNFINISHED

    def try_complete(self) -> object:
        """Check the condition; if satisfied: `return self.force_complete()`.

        Called at submission and for each event of a watch key, never twice at a time. An
        exception is reported and counts as not satisfied.
        """
        return False

    # The callbacks may return anything: compiled, `None` would be enforced.

    def on_complete(self) -> object:
        """Called exactly once, on completion or on expiry; not when cancelled."""
        return None

    def on_expiration(self) -> object:
        """Called after `on_complete`, only when the operation expired."""
        return None

    def on_cancel(self) -> object:
        """Called exactly once, when the operation was cancelled; no other callback follows."""
        return None

    def on_failure(self) -> object:
        """See `KeyedOperation`."""
        return None

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Return whether this completed the operation."""
        raise NotImplementedError

    def _op_count_key(self, key: Hashable, value: object, claim: Claim) -> int:
        """Do as `_op_complete_key`; return the effect, WON if work is left.

        IN_DOUBT if the claim, with a unit, is left to another thread.
        """
        raise NotImplementedError

    def _op_fail_key(self, key: Hashable, error: BaseException) -> bool:
        """Return whether this ended the operation."""
        del error  # only keyed operations take it
        return self._op_complete_key(key, None)

    def _op_on_raised(self, error: Exception) -> None:
        """Called after a callback that raised."""

    def _op_forget_counted(self) -> None:
        """Forget the keys that have counted: a submission was taken back."""

    def _op_on_interrupted(self) -> None:
        """Called after an interrupt, perhaps in a callback."""


# Compiled, it is shared or absent.
at_exit.register_many(OperationState, "_op_lock")


def enter(operation: OperationState) -> None:
    """Begin a section of an operation, where compiled; interpreted code uses `with _op_lock`.

    A section makes no call into the interpreter and raises nothing. With the interpreter lock such
    lines are atomic, and nothing is entered.
    """
    if LOCKED_SECTIONS:
        _enter_section(operation._op_lock)


def leave(operation: OperationState) -> None:
    """End a section that `enter` began."""
    if LOCKED_SECTIONS:
        _leave_section(operation._op_lock)


def exception_of(error: object, base: type[BaseException] = BaseException) -> Any:
    """Return an error, or a new one of a class. Raises TypeError for others."""
    made = error() if isinstance(error, type) and issubclass(error, base) else error
    if not isinstance(made, base):
        article = "an" if base is Exception else "a"
        raise TypeError(
            f"error is {error!r}; expected {article} {base.__name__} or a class of them"
        )
    return made


def timeout_error(error: Exception, timeout: object) -> Exception:
    """Return the error of a bad timeout under the argument's name, else the given error."""
    try:
        delay_to_ns("timeout", timeout)
    except (TypeError, ValueError) as better:
        return better
    return error


def outcome_of(operation: OperationState) -> Outcome | None:
    """Return the outcome of an operation; None if pending."""
    return operation._op_outcome


def tell_key(operation: OperationState, key: Hashable, value: object) -> bool:
    """Complete a key for one operation. True if this call completed the operation."""
    return operation._op_complete_key(key, value)


def first_of(owner: OperationOwner) -> OperationOwner:
    """Return the owner that the purgatory itself has."""
    return owner if owner.first is None else owner.first


def prepare_operation(operation: OperationState, owner: OperationOwner, lock: Any) -> None:
    """Set the fields of a keys-only operation, and attach it to its owner; the delay is 0.

    Does as the constructor and `operation.attach`, without their checks. `lock`: operations ended
    by the same thread may share a lock.
    """
    prepare_task(operation, 0)
    operation._op_keys = ()
    operation._op_owner = owner
    operation._op_has_condition = False
    operation._op_lock = lock  # type: ignore[misc]
    operation._op_outcome = None
    operation._op_busy = False
    operation._op_recheck = False
    operation._op_stage = UNFINISHED
