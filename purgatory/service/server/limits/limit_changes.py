"""LimitChanges: a transaction's changes of limits. Used by the store thread alone."""

from purgatory.service.server.limits.kind_limits import KindLimits
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import StoredLimit


class LimitChanges:
    """Limits that replace those of `limits` when `changes`, of `now_ms`, are on disk."""

    def __init__(self, limits: KindLimits, changes: Changes, now_ms: int) -> None:
        self._limits = limits
        self._changes = changes
        self._now_ms = now_ms
        self._changed: dict[str, StoredLimit] = {}

    def find(self, kind: str) -> StoredLimit:
        """Return a kind's limits after this transaction."""
        return self._changed.get(kind) or self._limits.find(kind)

    def put(self, limit: StoredLimit) -> None:
        """Set the limits of a kind."""
        self._changed[limit.kind] = limit

    @property
    def count(self) -> int:
        """How many kinds have a limit after this transaction, at most."""
        return len(self._limits) + len(self._changed)

    def prepare(self) -> None:
        """Add the rows."""
        for limit in self._changed.values():
            if limit.paused or limit.running or limit.per_second:
                self._changes.limits += limit
            else:
                self._changes.delete_limits.append(limit.kind)

    def publish(self) -> None:
        """Change the limits, after the commit."""
        for limit in self._changed.values():
            self._limits.put(limit, self._now_ms)
