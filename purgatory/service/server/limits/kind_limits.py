"""KindLimits: which kinds are paused, how many of their jobs run, and how many begin in a second.

A job counts from its lease on, so that no limit is passed. Rates are token buckets of a second: a
lease takes a token, and a job given back returns it. Store thread alone.
"""

from typing import Final

from purgatory.service.job_messages import KindLimit
from purgatory.service.server.memory import limit_bytes
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import StoredLimit

#: Why a ready job does not run.
PAUSED: Final = "paused"
RUNNING: Final = "limit of running jobs"
RATE: Final = "limit of jobs per second"
# A token, but for floating point errors.
_ENOUGH: Final = 1.0 - 1e-9


class TokenBucket:
    """A bucket with `tokens` at `at_ms`, then `rate` more a second.

    It holds the tokens of a second, at least a single token.

    """

    __slots__ = ("_at_ms", "_most", "_rate", "_tokens")

    def __init__(self, rate: float, tokens: float, at_ms: int) -> None:
        self._rate = rate
        self._most = max(1.0, rate)
        self._tokens = min(tokens, self._most)
        self._at_ms = at_ms

    def look(self, now_ms: int) -> float:
        """Return the tokens."""
        if now_ms > self._at_ms:
            more = self._rate * (now_ms - self._at_ms) / 1000
            self._tokens = min(self._most, self._tokens + more)
            self._at_ms = now_ms
        return self._tokens

    def add(self, tokens: float) -> None:
        """Take or return a token: `tokens` is -1 or 1."""
        self._tokens = min(self._most, self._tokens + tokens)

    def next_ms(self, now_ms: int) -> int:
        """Return when there is a token."""
        missing = _ENOUGH - self.look(now_ms)
        return now_ms if missing <= 0 else now_ms + 1 + int(1000 * missing / self._rate)


class KindLimits:
    """The limits, and the jobs that count."""

    def __init__(self) -> None:
        self._by_kind: dict[str, StoredLimit] = {}
        self._buckets: dict[str, TokenBucket] = {}
        #: Leased jobs by kind, without those of lapsed connections.
        self.leased: dict[str, int] = {}
        self.bytes: int = 0

    @property
    def is_used(self) -> bool:
        """Whether any kind has a limit."""
        return bool(self._by_kind)

    def __len__(self) -> int:
        return len(self._by_kind)

    def has(self, kind: str) -> bool:
        """Whether a kind has a limit."""
        return kind in self._by_kind

    def find(self, kind: str) -> StoredLimit:
        """Return the limits of a kind; all 0 if it has none."""
        return self._by_kind.get(kind) or StoredLimit(kind, 0, 0, 0.0)

    def listed(self) -> list[KindLimit]:
        """Return all limits, by kind."""
        return [
            KindLimit(kind, bool(one.paused), one.running or None, one.per_second or None)
            for kind, one in sorted(self._by_kind.items())
        ]

    def put(self, limit: StoredLimit, now_ms: int, tokens: float | None = None) -> None:
        """Set a kind's limits; a new bucket has `tokens`, by default all."""
        kind, before = limit.kind, self._by_kind.pop(limit.kind, None)
        if before is not None:
            self.bytes -= limit_bytes(kind)
        if limit.paused or limit.running or limit.per_second:
            self._by_kind[kind] = limit
            self.bytes += limit_bytes(kind)
        if not limit.per_second:
            self._buckets.pop(kind, None)
        elif before is None or before.per_second != limit.per_second:
            old = self._buckets.get(kind)
            if tokens is None:
                tokens = max(1.0, limit.per_second) if old is None else old.look(now_ms)
            self._buckets[kind] = TokenBucket(limit.per_second, max(tokens, 0.0), now_ms)

    def blocked(self, kind: str, now_ms: int) -> str:
        """Return why no job of a kind may be leased; else empty."""
        limit = self._by_kind.get(kind)
        if limit is None:
            return ""
        if limit.paused:
            return PAUSED
        if limit.running and self.leased.get(kind, 0) >= limit.running:
            return RUNNING
        if limit.per_second and self._buckets[kind].look(now_ms) < _ENOUGH:
            return RATE
        return ""

    def next_ms(self, kind: str, now_ms: int) -> int | None:
        """Return when the rate allows a job, if it blocks."""
        return self._buckets[kind].next_ms(now_ms) if self.blocked(kind, now_ms) == RATE else None

    def take(self, kind: str) -> None:
        """Note that a job is leased."""
        self.count(kind, 1)
        bucket = self._buckets.get(kind)
        if bucket is not None:
            bucket.add(-1.0)

    def give_back(self, kind: str) -> None:
        """Note that a leased job did not begin."""
        bucket = self._buckets.get(kind)
        if bucket is not None:
            bucket.add(1.0)

    def count(self, kind: str, more: int) -> None:
        """Change the number of leased jobs."""
        count = self.leased.get(kind, 0) + more
        if count:
            self.leased[kind] = count
        else:
            self.leased.pop(kind, None)


class LimitChanges:
    """Changes of limits at `now_ms`, written to `changes`."""

    def __init__(self, limits: KindLimits, changes: Changes, now_ms: int) -> None:
        self._limits = limits
        self._changes = changes
        self._now_ms = now_ms
        self._changed: dict[str, StoredLimit] = {}

    def find(self, kind: str) -> StoredLimit:
        """Return a kind's limits in this transaction."""
        return self._changed.get(kind) or self._limits.find(kind)

    def put(self, limit: StoredLimit) -> None:
        """Set the limits of a kind."""
        self._changed[limit.kind] = limit

    @property
    def count(self) -> int:
        """How many kinds have a limit in this transaction, at most."""
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
