"""The errors of the package, with a common base."""

import concurrent.futures


class PurgatoryError(Exception):
    """Base of all errors of the package, except ValueError and TypeError for bad arguments."""


class PurgatoryClosed(PurgatoryError):
    """Raised by methods that submit, complete or cancel once the purgatory is closed. Permanent."""


class PurgatoryForked(PurgatoryError):
    """Raised in a forked child by its copy of a purgatory: the threads stayed in the parent."""


class WrongEventLoop(PurgatoryError, RuntimeError):
    """Raised by an `AsyncPurgatory` outside the event loop that it is bound to."""


class HeldFull(PurgatoryError):
    """Raised by `complete` with `hold` if the purgatory holds `max_held` events. Passes."""


class OperationExpired(PurgatoryError, TimeoutError):
    """Raised by a future if its timeout passes before its watch keys are completed."""


class OperationCancelled(PurgatoryError, concurrent.futures.CancelledError):
    """Raised by a future that `cancel_for_key` or `close` ended.

    After the future's own `cancel`, `result` raises `concurrent.futures.CancelledError`.
    """


class StoreError(PurgatoryError):
    """Raised when the database cannot be opened, read or written; the text says why.

    `fatal`: this process can no longer rely on the disk. Else the error may pass (a full disk, a
    locked database), and nothing of the write was kept.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class StoreFenced(StoreError):
    """Raised when another server has taken the store over; always fatal. Permanent.

    The write is not kept, and no later write either.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, fatal=True)

    def __reduce__(self) -> tuple[type["StoreFenced"], tuple[str]]:
        return type(self), (str(self),)


class NotReplicated(StoreError):
    """Raised when a write needs a synchronous standby, and the database has none. Passes.

    Nothing of the write was kept.
    """
