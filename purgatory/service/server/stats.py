"""What a server tells of itself."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class ServerStats:
    """A server's figures at one moment; what is not said to be of the moment is since the start.

    ``pending``: operations that wait now. ``unacknowledged``: outcomes now kept for their clients.
    ``connections``: those that said hello and are there now. ``messages``: read from clients.
    ``submitted``, ``completed``, ``expired``, ``cancelled``: operations. ``refused``: requests, or
    operations of them, that were answered with an error. ``commits``: transactions;
    ``commit_seconds``: what they took. ``commit_failures``: those that were undone.
    ``store_backlog``: requests the store thread has not taken yet. ``store_bytes``: the size of the
    database and its log. ``uptime_seconds``: since the start.
    """

    pending: int
    unacknowledged: int
    connections: int
    messages: int
    submitted: int
    completed: int
    expired: int
    cancelled: int
    refused: int
    commits: int
    commit_seconds: float
    commit_failures: int
    store_backlog: int
    store_bytes: int
    uptime_seconds: float

    def as_dict(self) -> dict[str, int | float]:
        """Name -> number."""
        return asdict(self)
