"""RepeatFacts: what a program reads of a repeat, from what the server has told. Any thread."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from purgatory.service.client.trace_context import unwrap
from purgatory.service.encoding import unpack_or_raw
from purgatory.service.job_messages import RepeatState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RepeatFacts:
    """A repeat as the server has described it last.

    `name` and `client` name it; `cron` and `tz`, or `every` in seconds, `kind`, `payload`,
    `overlap`, `missed` and `jitter` are its settings.
    """

    def __init__(self, state: RepeatState) -> None:
        self._state: RepeatState = state

    @property
    def name(self) -> str:
        """The name; also a tag of the repeat's jobs."""
        return self._state.repeat.name

    @property
    def client(self) -> str:
        """The name of the client whose workers get the jobs."""
        return self._state.client

    @property
    def cron(self) -> str | None:
        """The cron expression; None: the repeat runs at intervals."""
        return self._state.repeat.cron

    @property
    def every(self) -> float | None:
        """The interval in seconds; None: it runs by the calendar."""
        every_ms = self._state.repeat.every_ms
        return None if every_ms is None else every_ms / 1000

    @property
    def tz(self) -> str:
        """The name of the time zone of the cron expression."""
        return self._state.repeat.tz

    @property
    def kind(self) -> str:
        """The kind of the jobs."""
        return self._state.repeat.kind

    @property
    def payload(self) -> Any:
        """The payload of the jobs."""
        return unpack_or_raw(unwrap(self._state.repeat.payload)[1])

    @property
    def overlap(self) -> str:
        """Whether a run may begin while another has not ended: "skip" or "allow"."""
        return self._state.repeat.overlap

    @property
    def missed(self) -> str:
        """Which of the missed times run: "one", "none" or "all"."""
        return self._state.repeat.missed

    @property
    def jitter(self) -> float:
        """The longest time, in seconds, by which a run is later."""
        return self._state.repeat.jitter_ms / 1000

    def _moment(self, unix_ms: int | None) -> datetime | None:
        """Return a moment as an aware datetime of the repeat's zone."""
        if unix_ms is None:
            return None
        moment = _EPOCH + timedelta(milliseconds=unix_ms)
        try:
            return moment.astimezone(ZoneInfo(self.tz))
        except (KeyError, ValueError, OSError):  # this machine does not know the zone
            return moment
