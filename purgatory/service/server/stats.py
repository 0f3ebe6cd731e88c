"""ServerStats: the figures of a server."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ServerStats:
    """A server's figures at one moment; counters are since its start.

    `pending`: operations that wait now. `unacknowledged`: outcomes kept for their clients now.
    `held`: events held now for operations that are submitted later. `connections`: connections
    that have said hello, now. `messages`: read from clients. `submitted`, `completed`, `failed`,
    `expired`, `cancelled`: operations. `refused`: requests, or operations of them, answered with an
    error. `commits`: transactions; `commit_seconds`: the time they took. `commit_failures`:
    transactions that were rolled back. `store_backlog`: commands the store thread has not taken
    yet. `store_bytes`: size of the database and its log. `uptime_seconds`: since the start.
    `memory_bytes`: that the process takes, by estimate; `max_memory_bytes`: that it may take, 0 for
    any number. `ready`: 1 if the server is ready, else 0; `last_commit_age_seconds`,
    `oldest_due_age_seconds` and `failing_seconds` say why, see `HealthReport`. `next_due_seconds`:
    until something may be due; -1 if nothing waits. `jobs_waiting`, `jobs_leased`, `jobs_dead`:
    jobs that are due and wait, that workers have, and that were given up; they are among
    `unacknowledged`.
    """

    pending: int
    unacknowledged: int
    held: int
    connections: int
    messages: int
    submitted: int
    completed: int
    failed: int
    expired: int
    cancelled: int
    refused: int
    commits: int
    commit_seconds: float
    commit_failures: int
    store_backlog: int
    store_bytes: int
    uptime_seconds: float
    memory_bytes: int = 0
    max_memory_bytes: int = 0
    ready: int = 1
    last_commit_age_seconds: float = 0.0
    oldest_due_age_seconds: float = 0.0
    failing_seconds: float = 0.0
    next_due_seconds: float = -1.0
    jobs_waiting: int = 0
    jobs_leased: int = 0
    jobs_dead: int = 0

    def as_dict(self) -> dict[str, int | float]:
        """Return name -> number."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(ServerStats))
