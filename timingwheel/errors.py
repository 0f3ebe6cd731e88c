"""Errors of timers: one base, and a class for each kind."""


class TimerError(Exception):
    """Base of all errors of the package. Bad arguments raise ValueError or TypeError."""


class TimerClosed(TimerError):
    """Raised by `add` and `start` once the timer is closed. Permanent."""


class TimerFull(TimerError):
    """Raised by `add` while `max_pending` tasks are pending. Passes when some fire or cancel."""


class TimerForked(TimerError):
    """Raised by a forked child's copy of a timer, which has no threads."""
