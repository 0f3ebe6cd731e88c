"""TimerTask: what is to run, and when. TimerTaskEntry: its place in the wheel.

Unlike Kafka's, a task *is* its entry, by inheritance: one object a timer.

A task is pending exactly while `_tt_list` names its bucket. The thread that takes a task out, under
the lock, cancels, adds or runs it.
"""

import inspect
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, ClassVar, Final

from _purgatory_cpython import at_exit
from _purgatory_cpython.atomicity import LOCKED_SECTIONS
from _purgatory_cpython.mypyc_types import i32, i64, mypyc_attr, u8
from _purgatory_cpython.sections import thread_number
from timingwheel._cpython.callback_kind import LOOK_CLOSER, STATELESS, callback_kind
from timingwheel.arguments import check_count
from timingwheel.clocks.duration import MAX_DELAY_NS, NS_PER_MS, to_ns

# States of an entry in no list, kept in _tt_index: written only with the list, locked.
NEW: Final = -1
TAKEN: Final = -2  # to be run
CANCELLED: Final = -3

# Bound once: see `timingwheel.bucket`.
_thread_number: Final = thread_number
_callback_kind: Final = callback_kind


_COROUTINE_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
_GENERATOR_FLAGS: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class _RunOverrideCache:
    """The last class found to override `run`. Any thread. Worth it: see docs/mechanisms.md."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: type | None = None


_RUN_OVERRIDE_CACHE: Final = _RunOverrideCache()


def check_callback(name: str, callback: Any) -> bool:
    """Raise TypeError for what is no callable, or a coroutine or generator function.

    Returns whether the callback refers only to its module.
    """
    kind = _callback_kind(callback)
    if kind == LOOK_CLOSER and not isinstance(callback, BuiltinFunctionType):
        if not callable(callback):
            raise TypeError(f"{name} is {callback!r}; expected a callable")
        what = lazy_kind(callback)
        if what:
            raise TypeError(
                f"{name} is {callback!r}, {what}; expected a function that is not async "
                "and runs when called"
            )
    return kind == STATELESS


def lazy_kind(callback: Any) -> str:
    """Return the kind of a coroutine or generator function; "" for any other callable."""
    while isinstance(callback, (partial, staticmethod)):
        callback = callback.func if isinstance(callback, partial) else callback.__func__
    if not isinstance(callback, (FunctionType, MethodType, type)):
        # An async `__call__`, or a mark of `inspect`.
        if inspect.iscoroutinefunction(callback):
            return "a coroutine function"
        callback = getattr(type(callback), "__call__", None)  # noqa: B004  # it is looked at
    code = getattr(callback, "__code__", None)
    flags: int = code.co_flags if isinstance(code, CodeType) else 0
    if flags & _COROUTINE_FLAGS:
        return "a coroutine function"
    if flags & _GENERATOR_FLAGS:
        return "a generator function"
    return ""


def check_hooks(kind: type, names: tuple[str, ...]) -> None:
    """Raise TypeError if one of these methods is async or a generator."""
    for name in names:
        what = lazy_kind(getattr(kind, name, None))
        if what:
            raise TypeError(
                f"{kind.__qualname__}.{name} is {what}; expected a method that is not async "
                "and runs when called"
            )


def check_initialized(task: Any) -> None:
    """Raise TypeError for a task whose class has an `__init__` without `super().__init__()`."""
    if not hasattr(task, "delay_ns"):
        raise TypeError(
            f"{type(task).__qualname__}.__init__ did not call super().__init__(); "
            "expected it to, with the delay"
        )


def in_copies_of(context: object, callback: Callable[..., object]) -> Callable[..., object]:
    """Return a function that calls back in a copy of a context.

    A context cannot be entered twice; callbacks may nest, and run in any thread.
    """
    if not isinstance(context, Context):
        raise TypeError(f"context is {context!r}; expected a contextvars.Context or None")
    return partial(_call_in_copy, context, callback)


def _call_in_copy(context: Context, callback: Callable[..., object], *args: Any) -> None:
    context.copy().run(callback, *args)


class TaskList:
    """Base of `TimerTaskList`: the part of a bucket that a task knows."""

    __slots__ = ()

    def cancel(self, task: "TimerTask") -> bool:
        """Take out a task for good; False if it is not here."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTaskEntry:
    """A task's fields for its bucket, whose lock guards all but `_tt_is_running`."""

    __slots__ = (
        "_tt_index",
        "_tt_is_running",
        "_tt_is_stateless",
        "_tt_list",
        "deadline_ns",
        *(("_tt_lane",) if LOCKED_SECTIONS else ()),
    )

    # Set by TimerTask's constructor, to save a call. In this order compiled objects lose no memory
    # to alignment.
    _tt_index: i32  # of the slot in _tt_list; in no list: one of the states above
    _tt_is_stateless: bool  # refers to nothing but a module: it can be in no reference cycle
    # Unset until the task is taken. Set under the lock, cleared without it by the running thread:
    # meanwhile another thread may add the task to any timer.
    _tt_is_running: bool
    _tt_lane: u8  # number of the task's thread, where threads have lanes: see `Lanes`
    _tt_list: TaskList | None
    deadline_ns: i64  # earliest clock reading at which the task may run; 0 until added

    @property
    def deadline_ms(self) -> int:
        """The deadline in milliseconds of the timer's clock, rounded up; 0 until added."""
        return -(-self.deadline_ns // NS_PER_MS)

    def when(self) -> float:
        """Return the deadline in seconds of the timer's clock, not rounded.

        If a clock of yours went back, the timer's time went on from its last reading.
        """
        return float(self.deadline_ns) / 1e9


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(TimerTaskEntry):
    """A callback to run after a delay, or a subclass that overrides `run`.

    `delay`: seconds (float or int) or a timedelta, counted from the moment the task is added.
    `context`: a `contextvars.Context`; the timer calls `callback` in a copy. Raises TypeError and
    ValueError for a bad delay, TypeError without a callback or for a coroutine function. Any thread
    may call any method.
    """

    __slots__ = ("_tt_call", "delay_ns")

    # The methods that a subclass may override.
    _tt_hooks: ClassVar[tuple[str, ...]] = ("run",)

    # Not to be overridden: compiled, `super()` fails in an override.
    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_hooks(cls, getattr(cls, "_tt_hooks", ("run",)))

    def __init__(
        self,
        delay: float | timedelta,
        callback: Callable[..., object] | None = None,
        *args: Any,
        context: Context | None = None,
    ) -> None:
        is_stateless = False
        if callback is None:
            kind = type(self)
            if kind is not _RUN_OVERRIDE_CACHE.last:
                if kind.run is TimerTask.run:
                    raise TypeError("callback is None; expected a callable")
                _RUN_OVERRIDE_CACHE.last = kind
        else:
            is_stateless = check_callback("callback", callback) and not args
            if context is not None:
                is_stateless = False
                callback = in_copies_of(context, callback)
        self._tt_list = None
        self._tt_index = NEW
        if LOCKED_SECTIONS:
            self._tt_lane = u8(_thread_number())
        self._tt_is_stateless = is_stateless
        self.deadline_ns = 0
        self.delay_ns: i64 = to_ns(delay)
        # The callback, (callback, args), or None: one field saves 8 bytes a timer.
        self._tt_call: Any = (callback, args) if args else callback

    @property
    def delay_ms(self) -> int:
        """The delay in milliseconds, rounded up; setting it is for the next `Timer.add`.

        Raises TypeError and ValueError for anything but an int of 0 or more.
        """
        return -(-self.delay_ns // NS_PER_MS)

    @delay_ms.setter
    def delay_ms(self, delay_ms: Any) -> None:  # compiled, an int would take a bool for one
        self.delay_ns = check_count("delay_ms", delay_ms, 0, MAX_DELAY_NS // NS_PER_MS) * NS_PER_MS

    def run(self) -> object:
        """Call the callback. The executor calls this once, under no lock."""
        # Returns object: compiled code would enforce None on overriding methods.
        call = self._tt_call
        if type(call) is tuple:
            callback, args = call
            if callback is not None:
                callback(*args)
        elif call is not None:
            call()
        return None

    def _tt_on_close(self) -> None:
        """Do nothing; called, under no lock, if the timer closed first."""

    def _tt_on_error(self) -> None:
        """Do nothing; called after `run` raised, perhaps before its first line.

        Not called if the task was added again meanwhile.
        """

    def cancel(self) -> bool:
        """Take the task out of its timer; True if this call prevented the run.

        Also a dispatched task that has not started. False for a task that runs, has run, was
        cancelled before or was never added.
        """
        while (bucket := self._tt_list) is not None:
            if bucket.cancel(self):
                return True
        return False

    def cancelled(self) -> bool:
        """Return whether the task was cancelled, and not added again."""
        return self._tt_list is None and self._tt_index == CANCELLED

    def done(self) -> bool:
        """Return whether the task ran or was cancelled, and not added again."""
        if self._tt_list is not None:
            return False
        index = self._tt_index
        return index == CANCELLED or (index == TAKEN and not self._tt_is_running)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: a timer refers to it")

    def __repr__(self) -> str:
        call = self._tt_call
        callback = call[0] if type(call) is tuple else call
        what = type(self).__name__ if callback is None else repr(callback)
        if self._tt_list is not None:
            return f"<TimerTask {what} due at {self.deadline_ms} ms>"
        taken = "done" if self.done() else "running"
        state = {NEW: "new", TAKEN: taken, CANCELLED: "cancelled"}
        return f"<TimerTask {what} {state[self._tt_index]}>"


def was_added(task: TimerTask) -> bool:
    """Return whether a timer has ever had the task: a deadline of 0 may be one, too."""
    return task._tt_list is not None or task._tt_index != NEW


def prepare_task(task: TimerTask, delay_ns: i64) -> None:
    """Set the fields of a task whose class overrides `run`; without checks, at half the cost."""
    task._tt_list = None
    task._tt_index = NEW
    if LOCKED_SECTIONS:
        task._tt_lane = u8(_thread_number())
    task._tt_is_stateless = False
    task.deadline_ns = 0
    task.delay_ns = delay_ns
    task._tt_call = None


at_exit.register_many(TimerTask)
