"""RepeatRecord: a repeat at the server. Immutable; any thread."""

import zlib
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from purgatory.cron.expression import CronExpression
from purgatory.service.encoding import encode
from purgatory.service.job_messages import Repeat, RepeatState
from purgatory.service.server.memory import REPEAT_BYTES, text_bytes
from purgatory.service.store.rows import StoredRepeat

#: Client and name.
RepeatKey = tuple[str, str]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class RepeatRecord(NamedTuple):
    """A client's repeat. Times are Unix milliseconds; 0: none.

    `next_ms`: of the next run, without jitter; `last_ms`: of the last.
    `missed_until_ms`: times up to it passed unexamined: they are missed.
    `busy_until_ms`: an unfinished run was seen then.
    `wake_ms`: when to examine the repeat.
    `runs`: ids of its latest jobs, perhaps unfinished.
    """

    client: str
    settings: Repeat
    cron: CronExpression | None
    next_ms: int
    last_ms: int = 0
    skipped: int = 0
    paused: bool = False
    runs: tuple[str, ...] = ()
    missed_until_ms: int = 0
    busy_until_ms: int = 0
    wake_ms: int = 0

    @property
    def key(self) -> RepeatKey:
        """Client and name."""
        return self.client, self.settings.name

    @property
    def bytes(self) -> int:
        """The estimated memory."""
        repeat = self.settings
        names = text_bytes(self.client) + text_bytes(repeat.name)
        return REPEAT_BYTES + names + len(repeat.cron or "") + len(repeat.payload)

    @property
    def due_ms(self) -> int:
        """When the next run is due, with jitter."""
        jitter_ms = self.settings.jitter_ms
        if not jitter_ms:
            return self.next_ms
        # The same after a restart; differs between repeats.
        seed = f"{self.client}\n{self.settings.name}\n{self.next_ms}"
        return self.next_ms + zlib.crc32(seed.encode()) % (jitter_ms + 1)

    def time_after(self, after_ms: int) -> int:
        """Return the first time after a moment; 0 without any."""
        every_ms = self.settings.every_ms
        if every_ms:
            intervals = max(0, after_ms - self.next_ms) // every_ms + 1
            return self.next_ms + intervals * every_ms
        return 0 if self.cron is None else first_time(self.cron, after_ms)

    def skip(self, after_ms: int) -> "RepeatRecord":
        """Skip to the first time after a moment, and count it."""
        return self._replace(next_ms=self.time_after(after_ms), skipped=self.skipped + 1)

    def state(self) -> RepeatState:
        """Return the state for clients."""
        return RepeatState(
            self.settings,
            self.client,
            self.paused,
            self.due_ms if self.next_ms and not self.paused else None,
            self.last_ms or None,
            self.skipped,
        )

    def row(self) -> StoredRepeat:
        """Return the row for the store."""
        return StoredRepeat(
            self.client,
            self.settings.name,
            self.next_ms,
            self.last_ms,
            int(self.paused),
            self.skipped,
            self.settings.every_ms or 0,
            bytearray(encode(self.settings)),
        )


def first_time(cron: CronExpression, after_ms: int) -> int:
    """Return the first time after a moment; 0 without any."""
    found = cron.next_after(_EPOCH + after_ms * _MS)
    return 0 if found is None else (found - _EPOCH) // _MS


def has_same_rhythm(one: Repeat, other: Repeat) -> bool:
    """Whether two repeats have the same times."""
    if one.cron is None:
        return one.every_ms == other.every_ms
    return (one.cron, one.tz) == (other.cron, other.tz)


def run_id(name: str, at_ms: int) -> str:
    """Return the job's id of a repeat's time: `nightly@2026-11-27T02:30:00Z`."""
    at = _EPOCH + at_ms * _MS
    precision = "milliseconds" if at_ms % 1000 else "seconds"
    return f"{name}@{at.isoformat(timespec=precision).removesuffix('+00:00')}Z"


def name_of_run(job_id: str) -> str:
    """Return the repeat's name in a run's id; else empty."""
    return job_id.rpartition("@")[0]
