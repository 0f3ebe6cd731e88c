"""PurgatoryStats: the figures of a purgatory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PurgatoryStats:
    """A purgatory's figures at one moment.

    `pending`: operations that wait. `watch_entries`: pairs of a pending operation and a key it
    watches. `watched_keys`: keys with at least one such operation. `held`: events that count for
    later operations, too. `completed`, `failed`, `expired`, `cancelled`: operations that ended so,
    since the start. `mailbox_commands`: commands posted to
    the loop since the start. `mailbox_depth`: those of them that it has not received yet.
    """

    name: str
    pending: int
    watch_entries: int
    watched_keys: int
    held: int
    completed: int
    failed: int
    expired: int
    cancelled: int
    mailbox_commands: int
    mailbox_depth: int
