"""Journals of jobs for the tests of reports: rows, and their report computed without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from purgatory.spark.report.content import (
    EndCount,
    JobError,
    JobHour,
    JobsReport,
    JobSummary,
    Kind,
    WorkerJobs,
)
from purgatory.spark.report.histograms import ALL_KINDS
from purgatory.spark.tables.schema import JOBS
from purgatory.trace.tables import JobRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
# A Monday, 0:00 UTC, in November 2026.
MONDAY = 1_795_392_000_000


def make_job(
    number: int,
    kind: str = "mail",
    state: str = "done",
    *,
    due: int = MONDAY,
    queue: int | None = 0,
    run: int = 10,
    attempts: int = 1,
    worker: str = "w1",
    error: str = "",
) -> JobRow:
    """Make the end of a job; `queue` None: no attempt has begun."""
    if queue is None:
        return JobRow(
            f"j{number}", kind, state, "shop", (), due - HOUR, due, None, due + run, 0,
            None, None, "", error,
        )  # fmt: skip
    began = due + queue
    return JobRow(
        f"j{number}", kind, state, "shop", ("t",), due - HOUR, due, began, began + run, attempts,
        queue, run, worker, error,
    )  # fmt: skip


def jobs_frame(spark: SparkSession, rows: Iterable[JobRow]) -> DataFrame:
    """Return jobs as a DataFrame."""
    values = [(*row[:4], list(row.tags), *row[5:]) for row in rows]
    return spark.createDataFrame(values, JOBS)


def hour_of_week(row: JobRow) -> int:
    """Return hours from Monday 0:00 UTC to the time at which a job was due."""
    return (row.due_ms - MONDAY) // HOUR % 168


def nearest_rank(values: Iterable[int], share: float) -> int:
    """Return the smallest value that at least a share of the values do not exceed."""
    ordered = sorted(values)
    return next(v for n, v in enumerate(ordered, 1) if n >= share * len(ordered))


def most_at_once(rows: Iterable[JobRow]) -> int:
    """Return how many last attempts ran at the same time, at most, looking at each beginning."""
    steps = sorted(
        step
        for row in rows
        if row.began_ms is not None and row.run_ms
        for step in ((row.began_ms, 1), (row.ended_ms, -1))
    )
    running = peak = 0
    for _, step in sorted(steps, key=lambda step: (step[0], step[1])):
        running += step
        peak = max(peak, running)
    return peak


def counts_of(rows: Iterable[JobRow], value) -> list[EndCount]:
    """Count ends by a value of theirs; None counts for nothing."""
    found = Counter((value(row), row.state) for row in rows)
    values = sorted({v for v, _ in found if v is not None})
    return [EndCount(v, *(found[v, s] for s in ("done", "dead", "cancelled"))) for v in values]


def job_report_of(rows: Iterable[JobRow]) -> JobsReport:
    """Return the report of jobs; errors as they are."""
    rows = list(rows)
    of_kinds: dict[Kind, list[JobRow]] = {ALL_KINDS: rows}
    sizes = Counter(row.kind for row in rows)
    for name, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        of_kinds[Kind(False, name)] = [row for row in rows if row.kind == name]
    errors = Counter((row.kind, row.error) for row in rows if row.error and row.state != "done")
    hours = counts_of(rows, hour_of_week)
    late = Counter(hour_of_week(row) for row in rows if (row.queue_ms or 0) > SECOND)
    return JobsReport(
        ended=len(rows),
        kinds=len(sizes),
        first_ms=min(row.submitted_ms for row in rows),
        last_ms=max(row.ended_ms for row in rows),
        exact=True,
        summaries=tuple(_summary(kind, of) for kind, of in of_kinds.items()),
        errors=tuple(
            JobError(Kind(False, kind), error, *_dead_and_cancelled(rows, kind, error))
            for (kind, error), _ in errors.most_common()
        ),
        workers=tuple(_workers(rows)),
        hours=tuple(
            JobHour(*divmod(row.value, 24), row.ended, row.dead, late[row.value]) for row in hours
        ),
        minutes=_by_kind(of_kinds, lambda row: row.due_ms // MINUTE % 60),
        runs=_by_kind(of_kinds, lambda row: row.run_ms),
        attempts=_by_kind(of_kinds, lambda row: row.attempts),
    )


def _by_kind(of_kinds, value):
    counts = {kind: counts_of(rows, value) for kind, rows in of_kinds.items()}
    return {kind: found for kind, found in counts.items() if found}


def _dead_and_cancelled(rows, kind, error):
    ends = Counter(row.state for row in rows if (row.kind, row.error) == (kind, error))
    return ends["dead"], ends["cancelled"]


def _workers(rows):
    names = sorted({(row.kind, row.worker) for row in rows if row.worker})
    for kind, worker in names:
        of = [row for row in rows if (row.kind, row.worker) == (kind, worker)]
        ends = Counter(row.state for row in of)
        run = sum(row.run_ms for row in of)
        yield WorkerJobs(Kind(False, kind), worker, ends["done"], ends["dead"], run)


def _summary(kind: Kind, rows: list[JobRow]) -> JobSummary:
    ends = Counter(row.state for row in rows)
    queue = [row.queue_ms for row in rows if row.queue_ms is not None]
    run = [row.run_ms for row in rows if row.run_ms is not None and row.state == "done"]
    shares = (0.5, 0.9, 0.99, 0.999)
    return JobSummary(
        kind,
        ends["done"],
        ends["dead"],
        ends["cancelled"],
        begun=len(queue),
        attempts=sum(row.attempts for row in rows),
        most_attempts=max(row.attempts for row in rows),
        queue_ms=tuple(nearest_rank(queue, share) for share in shares) if queue else (),
        run_ms=tuple(nearest_rank(run, share) for share in shares) if run else (),
        peak=most_at_once(rows) or None,
    )


def mixed_jobs(count: int, seed: int = 1) -> list[JobRow]:
    """Make jobs of nine kinds: each rule of advice has something to say of one.

    `mail` dies of one error, `slow` waits for workers, `burst` is due in one minute of the hour,
    `hang` has failed attempts that last, `vain` is tried again in vain, `luck` is done by last
    attempts, `sick` has a bad worker, `stale` is not begun in time, `fine` is fine.
    """
    rng = random.Random(seed)
    makers = (_mail, _slow, _burst, _hang, _vain, _luck, _sick, _stale, _fine)
    return [makers[n % len(makers)](rng, n) for n in range(count)]


def _due(rng: random.Random) -> int:
    return MONDAY + rng.randrange(7 * 24 * HOUR)


def _mail(rng: random.Random, n: int) -> JobRow:
    dead = rng.random() < 0.05
    error = f"ValueError: no address of {n}" if dead else ""
    state = "dead" if dead else "done"
    return make_job(n, "mail", state, due=_due(rng), run=rng.randrange(1, 50), error=error)


def _slow(rng: random.Random, n: int) -> JobRow:
    run = rng.randrange(1, 900)
    return make_job(n, "slow", due=_due(rng), queue=rng.randrange(90_000), run=run)


def _burst(rng: random.Random, n: int) -> JobRow:
    due = MONDAY + rng.randrange(7 * 24) * HOUR + rng.randrange(MINUTE)
    queue = rng.randrange(60_000)
    return make_job(n, "burst", due=due, queue=queue, run=rng.randrange(1, 300))


def _hang(rng: random.Random, n: int) -> JobRow:
    if rng.random() < 0.009:
        hung = rng.randrange(500_000, 600_000)
        return make_job(n, "hang", "dead", due=_due(rng), run=hung, error="TimeLimit: too long")
    return make_job(n, "hang", due=_due(rng), run=rng.randrange(1, 700))


def _vain(rng: random.Random, n: int) -> JobRow:
    if rng.random() < 0.1:
        row = make_job(n, "vain", "dead", due=_due(rng), attempts=5, error="KeyError: 'to'")
        return row._replace(attempts=rng.choice([3, 5]))
    return make_job(n, "vain", due=_due(rng))


def _luck(rng: random.Random, n: int) -> JobRow:
    attempts = rng.choice([1, 2, 3])
    dead = attempts == 3 and rng.random() < 0.5
    error = "OSError: timed out" if dead else ""
    state = "dead" if dead else "done"
    return make_job(n, "luck", state, due=_due(rng), attempts=attempts, error=error)


def _sick(rng: random.Random, n: int) -> JobRow:
    worker = rng.choice(["w1", "w2", "w3"])
    dead = worker == "w3" and rng.random() < 0.5
    error = "ImportError: no module" if dead else ""
    state = "dead" if dead else "done"
    return make_job(n, "sick", state, due=_due(rng), worker=worker, error=error)


def _stale(rng: random.Random, n: int) -> JobRow:
    if rng.random() < 0.1:
        late = "not begun in time"
        return make_job(n, "stale", "cancelled", due=_due(rng), queue=None, run=60_000, error=late)
    return make_job(n, "stale", due=_due(rng))


def _fine(rng: random.Random, n: int) -> JobRow:
    if rng.random() < 0.02:
        why = "cancelled by the key k"
        return make_job(n, "fine", "cancelled", due=_due(rng), queue=None, run=0, error=why)
    return make_job(n, "fine", due=_due(rng), queue=rng.randrange(30), run=rng.randrange(1, 90))
