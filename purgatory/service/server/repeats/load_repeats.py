"""`load_repeats`: loads the repeats. Starting thread alone."""

import logging
from typing import Final

import msgspec

from purgatory.cron.expression import CronExpression
from purgatory.service.job_messages import Repeat
from purgatory.service.server.records.job_record import CANCELLED, DONE
from purgatory.service.server.repeats.repeat_record import (
    RepeatKey,
    RepeatRecord,
    first_time,
    name_of_run,
)
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import StoredRepeat

log: logging.Logger = logging.getLogger(__name__)

#: A clock set back by less repeats no times of the calendar, as in Debian's cron; by more, it was
#: wrong before.
SET_BACK_MS: Final = 10_800_000


def load_repeats(state: ServerState, store: Store, now_ms: int, shift_ms: int) -> None:
    """Read the repeats into `state`, after the operations. Raises StoreError.

    `shift_ms`: by how much the clock was set since the last run.
    """
    rows = store.repeats()
    runs = _find_runs(state, {(row.client, row.name) for row in rows}) if rows else {}
    for row in rows:
        record = _record(row, now_ms, shift_ms)
        state.repeats.put(record._replace(runs=tuple(runs.get(record.key, ()))))


def _record(row: StoredRepeat, now_ms: int, shift_ms: int) -> RepeatRecord:
    settings = msgspec.msgpack.decode(row.settings, type=Repeat)
    cron = None if settings.cron is None else _expression(row, settings.cron, settings.tz)
    next_ms = row.next_ms
    if settings.cron is not None:
        if cron is None:
            next_ms = 0
        elif not next_ms or shift_ms <= -SET_BACK_MS:
            next_ms = first_time(cron, now_ms)
    paused = bool(row.paused)
    record = RepeatRecord(row.client, settings, cron, next_ms, row.last_ms, row.skipped, paused)
    return record._replace(wake_ms=0 if paused or not next_ms else record.due_ms)


def _expression(row: StoredRepeat, cron: str, tz: str) -> CronExpression | None:
    """Return a repeat's expression; None if this machine does not know the zone."""
    try:
        return CronExpression(cron, tz)
    except ValueError as error:
        log.error("repeat %r of %r does not run: %s", row.name, row.client, error)  # noqa: TRY400
        return None


def _find_runs(state: ServerState, keys: set[RepeatKey]) -> dict[RepeatKey, list[str]]:
    found: dict[RepeatKey, list[str]] = {}
    for op_id, entry in state.known.items():
        key = entry.client.name, name_of_run(op_id)
        if key in keys and entry.job is not None and entry.job.state not in (DONE, CANCELLED):
            found.setdefault(key, []).append(op_id)
    return found
