"""LaterRepeatCalls: the calls of `LaterCalls` about repeats. Any thread may make a call."""

from typing import Any, Final

from purgatory.cron.expression import CronExpression
from purgatory.service.client.arguments import (
    Duration,
    checked_choice,
    checked_cursor,
    checked_filled,
    checked_number,
    checked_text,
    duration_ms,
    filter_text,
    not_one_of_two,
)
from purgatory.service.client.call_sender import CallSender, packed_value
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.job_messages import (
    CHANGES,
    MISSED,
    OVERLAPS,
    ChangeRepeat,
    ReadRepeats,
    Repeat,
    RepeatChanged,
    RepeatCursor,
    Repeats,
    RepeatState,
    SetRepeat,
)

#: The time zone of intervals.
_UTC: Final = "UTC"


class LaterRepeatCalls(CallSender):
    """The calls about repeats; see `LaterCalls`."""

    def repeat_later(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = _UTC,
        kind: str = "",
        payload: Any = None,
        overlap: str = "skip",
        missed: str = "one",
        jitter: Duration = 0.0,
    ) -> ReplyFuture[RepeatState]:
        """Have the server schedule jobs by the calendar or at intervals; answers with the repeat.

        `cron`: minute, hour, day, month and weekday in the time zone `tz`, as "30 2 * * MON-FRI";
        or `every`: an interval in seconds, as a timedelta or a text like "15m", first run after one
        interval. One is required. Each time, a worker of this client's name gets a job with `kind`,
        `payload` and the tag `name`.

        Another call with the `name` replaces the settings, and keeps the rhythm if `cron` and `tz`,
        or `every`, are unchanged. So each process may declare the repeat.

        `overlap`: "skip", no run begins while one is ready, running or retrying; or "allow".
        `missed`: the runs for times that passed while no server ran, or the repeat was paused:
        "one" for all, "none", or "all" in turn. `jitter`: each run is later by a random part of
        this time. Raises ValueError for a bad `cron` or `tz`, and for a `tz` without `cron`.
        """
        if (cron is None) == (every is None):
            raise not_one_of_two("cron", "every", is_both=every is not None)
        if cron is None and tz != _UTC:
            raise ValueError(f"tz is {tz!r}, without cron; expected a time zone only with cron")
        expression = None if cron is None else CronExpression(cron, tz)
        repeat = Repeat(
            checked_filled(name, "name"),
            cron=None if cron is None else checked_text(cron, "cron"),
            every_ms=None if every is None else _interval_ms(every),
            tz=_UTC if expression is None else checked_text(tz, "tz"),
            kind=checked_text(kind, "kind"),
            payload=packed_value(payload, "payload"),  # no trace lasts as long as a repeat
            overlap=checked_choice(overlap, "overlap", OVERLAPS),
            missed=checked_choice(missed, "missed", MISSED),
            jitter_ms=duration_ms(jitter, "jitter"),
        )
        return self._call(SetRepeat, (repeat,))

    def change_repeat_later(
        self, name: str, change: str, *, client: str | None = None
    ) -> ReplyFuture[RepeatChanged]:
        """Pause, resume, delete or run a repeat; answers `done` and the new `state`.

        `change`: "pause", "resume", "delete" or "run". `client`: whose repeat; None: this client's.
        `done` is False, and `state` None, without such a repeat; a run that `overlap` forbids is
        not done, either.
        """
        change = checked_choice(change, "change", CHANGES)
        owner = None if client is None else checked_text(client, "client")
        return self._call(ChangeRepeat, (checked_filled(name, "name"), change, owner))

    def repeats_page_later(
        self,
        *,
        client: str | None = None,
        name: str | None = None,
        cursor: RepeatCursor | None = None,
        limit: int = 100,
    ) -> ReplyFuture[Repeats]:
        """Read a page of the repeats of all clients visible to this client.

        `cursor`: the `after` of the page before.
        """
        texts = [filter_text(client, "client"), filter_text(name, "name")]
        after = None
        if cursor is not None:
            after = tuple(checked_text(text, "cursor") for text in checked_cursor(cursor))
        return self._call(ReadRepeats, (after, checked_number(limit, "limit", 1), *texts))


def _interval_ms(every: Duration) -> int:
    every_ms = duration_ms(every, "every")
    if every_ms == 0:
        raise ValueError(f"every is {every!r}; expected an interval above 0")
    return every_ms
