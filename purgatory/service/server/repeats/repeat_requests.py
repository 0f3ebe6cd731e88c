"""RepeatRequests: carries out requests about repeats. Store thread alone."""

from collections.abc import Iterator
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from purgatory.cron.expression import CronExpression
from purgatory.service.encoding import encode
from purgatory.service.errors import Malformed, TooLarge, TooManyRepeats
from purgatory.service.job_messages import (
    CHANGES,
    MISSED,
    OVERLAPS,
    ChangeRepeat,
    ReadRepeats,
    Repeat,
    RepeatChanged,
    Repeats,
    RepeatSet,
    RepeatState,
    SetRepeat,
)
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.repeats.repeat_record import (
    RepeatKey,
    RepeatRecord,
    first_time,
    has_same_rhythm,
)
from purgatory.service.server.repeats.repeat_runs import RepeatRuns
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator, shown

#: Repeats of a client, and of all, at most.
MOST_OF_A_CLIENT: Final = 1000
MOST: Final = 10_000
#: The shortest interval, and the longest jitter.
MIN_EVERY_MS: Final = 10
MAX_JITTER_MS: Final = 86_400_000
# Room for the time in the id of a run.
_ID_BYTES: Final = 64
#: Repeats in an answer, and their bytes.
MAX_LISTED: Final = 500
LISTED_BYTES: Final = 1 << 17


class RepeatRequests:
    """Carries out requests."""

    def __init__(self, state: ServerState, validator: RequestValidator, runs: RepeatRuns) -> None:
        self._state = state
        self._validator = validator
        self._runs = runs

    def declare(
        self, transaction: Transaction, command: ClientRequest, request: SetRepeat
    ) -> RepeatSet:
        """Add a repeat, or replace its settings. Raises Refused."""
        cron = self._check(request.repeat)
        # A copy: the bytes are the message's.
        settings = replace(request.repeat, payload=Raw(bytes(request.repeat.payload)))
        before = transaction.repeats.find((command.client, settings.name))
        record = _declared(command.client, settings, cron, before, transaction.clock_ms)
        if before is None:
            record = record._replace(runs=self._runs.runs_of_deleted(transaction, record.key))
        if record is not before:
            self._check_room(transaction, record, before)
            transaction.repeats.put(record)
        return RepeatSet(request.seq, record.state())

    def _check_room(
        self, transaction: Transaction, record: RepeatRecord, before: RepeatRecord | None
    ) -> None:
        repeats = transaction.repeats
        if before is None and (count := repeats.count(record.client)) >= MOST_OF_A_CLIENT:
            raise TooManyRepeats(
                f"client {record.client!r} has {count} repeats; expected at most {MOST_OF_A_CLIENT}"
            )
        if before is None and (count := repeats.count()) >= MOST:
            raise TooManyRepeats(f"the server has {count} repeats; expected at most {MOST}")
        size = record.bytes - (0 if before is None else before.bytes)
        state = self._state
        if size > 0 and repeats.bytes_more() + size > state.memory_left:
            raise state.no_room(f"a repeat of {record.bytes} bytes")

    def change(
        self, transaction: Transaction, command: ClientRequest, request: ChangeRepeat
    ) -> RepeatChanged:
        """Pause, resume, run or delete a repeat. Raises Refused."""
        if request.change not in CHANGES:
            raise Malformed(f"change is {shown(request.change)}; expected one of {CHANGES}")
        client = command.client if request.client is None else request.client
        key = client, request.name
        is_others = command.owner not in (None, client)
        before = None if is_others else transaction.repeats.find(key)
        done = before is not None and self._apply(transaction, before, request.change)
        after = None if is_others else transaction.repeats.find(key)
        return RepeatChanged(request.seq, done, None if after is None else after.state())

    def _apply(self, transaction: Transaction, record: RepeatRecord, change: str) -> bool:
        """Change a repeat; False if its run has to wait for the last one."""
        if change == "delete":
            transaction.repeats.remove(record.key)
        elif change == "run":
            return self._run(transaction, record)
        elif change == "pause" and not record.paused:
            transaction.repeats.put(record._replace(paused=True, wake_ms=0))
        elif change == "resume" and record.paused:
            now_ms = transaction.clock_ms
            resumed = record._replace(paused=False, missed_until_ms=now_ms, busy_until_ms=0)
            self._runs.advance(transaction, resumed, 1)
        return True

    def _run(self, transaction: Transaction, record: RepeatRecord) -> bool:
        record = self._runs.without_ended(record)
        is_busy = record.settings.overlap == "skip" and self._runs.is_busy(record)
        if is_busy:
            record = record._replace(skipped=record.skipped + 1)
        else:
            record = self._runs.submit(transaction, record, self._state.stamp.now_ms)
        transaction.repeats.put(record)
        return not is_busy

    def answer_list(self, command: ClientRequest, request: ReadRepeats) -> Iterator[bytes | None]:
        """List a page of repeats."""
        limit = min(max(1, request.limit), MAX_LISTED)
        states: list[RepeatState] = []
        after: RepeatKey | None = None
        size = 0
        for count, key in enumerate(self._keys(command, request), 1):
            if count % MAX_LISTED == 0:
                yield None
            if len(states) == limit or size > LISTED_BYTES:
                after = states[-1].client, states[-1].repeat.name
                break
            record = self._state.repeats.by_key.get(key)
            if record is not None and request.name in (None, key[1]):
                size += record.bytes
                states.append(record.state())
        yield encode(Repeats(request.seq, states, after))

    def _keys(self, command: ClientRequest, request: ReadRepeats) -> list[RepeatKey]:
        owner = command.owner
        client = request.client if owner is None else owner
        if owner is not None and request.client not in (None, owner):
            return []
        by_key = self._state.repeats.by_key
        if client is not None and request.name is not None:
            return [(client, request.name)]
        after = request.after
        keys = by_key.irange(after, inclusive=(False, True)) if after else by_key.irange()
        return [key for key in keys if client in (None, key[0])]

    def _check(self, repeat: Repeat) -> CronExpression | None:
        validator = self._validator
        validator.check_text(repeat.name)
        most = validator.limits.text_bytes - _ID_BYTES
        if len(repeat.name.encode()) > most:
            raise TooLarge(f"name {shown(repeat.name)} has more than {most} bytes")
        validator.check_text(repeat.kind, empty=True)
        validator.check_value("payload", repeat.payload)
        _check_choice("overlap", repeat.overlap, OVERLAPS)
        _check_choice("missed", repeat.missed, MISSED)
        cron = self._check_times(repeat)
        longest = MAX_JITTER_MS if repeat.every_ms is None else min(MAX_JITTER_MS, repeat.every_ms)
        if not 0 <= repeat.jitter_ms <= longest:
            found = f"jitter is {repeat.jitter_ms / 1000} s"
            raise Malformed(f"{found}; expected 0 to {longest / 1000} s")
        return cron

    def _check_times(self, repeat: Repeat) -> CronExpression | None:
        every_ms = repeat.every_ms
        if (repeat.cron is None) == (every_ms is None):
            raise Malformed(f"cron is {repeat.cron!r}, every_ms {every_ms!r}; expected one of them")
        if every_ms is not None:
            self._validator.check_timeout(every_ms, "every")
            if every_ms < MIN_EVERY_MS:
                least = f"{MIN_EVERY_MS / 1000} s or more"
                raise Malformed(f"every is {every_ms / 1000} s; expected {least}")
            return None
        assert repeat.cron is not None
        try:
            return CronExpression(repeat.cron, repeat.tz)
        except ValueError as error:
            raise Malformed(str(error)) from error


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise Malformed(f"{what} is {shown(value)}; expected one of {choices}")


def _declared(
    client: str,
    settings: Repeat,
    cron: CronExpression | None,
    before: RepeatRecord | None,
    now_ms: int,
) -> RepeatRecord:
    """Return a repeat with new settings; the same rhythm continues."""
    if before is not None and before.settings == settings:
        return before
    if before is not None and has_same_rhythm(before.settings, settings):
        record = before._replace(settings=settings, cron=cron)
    else:
        next_ms = now_ms + (settings.every_ms or 0) if cron is None else first_time(cron, now_ms)
        if before is None:
            record = RepeatRecord(client, settings, cron, next_ms)
        else:
            record = before._replace(
                settings=settings, cron=cron, next_ms=next_ms, missed_until_ms=0, busy_until_ms=0
            )
    return record._replace(wake_ms=0 if record.paused or not record.next_ms else record.due_ms)
