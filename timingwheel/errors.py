"""Errors of timers: one base, and a class for each error that a caller may want to catch."""


class TimerError(Exception):
    """Base of all errors of this package, except ValueError and TypeError for bad arguments."""


class TimerClosed(TimerError):
    """Raised by `add` and `start` once the timer is closed. Permanent."""


class TimerFull(TimerError):
    """Raised by `add` while `max_pending` tasks are pending. Passes when some fire or cancel."""


class TimerForked(TimerError):
    """Raised in a forked child by its copy of a timer: the threads stayed in the parent."""
