"""What can go wrong with a purgatory; one base for all of it, save bad arguments."""

import concurrent.futures


class PurgatoryError(Exception):
    """Base of all errors of this package, save ValueError and TypeError for bad arguments."""


class PurgatoryClosed(PurgatoryError):
    """Raised by all that submits, completes or cancels, once the purgatory is closed. Permanent."""


class PurgatoryForked(PurgatoryError):
    """Raised in a forked child by its copy of a purgatory: its threads stayed in the parent."""


class OperationExpired(PurgatoryError, TimeoutError):
    """The result of a future whose timeout passed before its watch keys were completed."""


class OperationCancelled(PurgatoryError, concurrent.futures.CancelledError):
    """The result of a future that `cancel_for_key` or `close` ended."""


class StoreError(PurgatoryError):
    """Raised when the database cannot be opened, read or written; says which and why.

    ``fatal``: what is on disk cannot be relied on in this process any more. Otherwise it may pass
    (a full disk, a database that somebody else has locked), and nothing of the write was kept.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal
