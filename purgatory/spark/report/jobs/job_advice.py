"""Advice about jobs, in the settings of a server, its workers and repeats.

Each rule looks at one kind.
"""

from collections.abc import Callable, Iterator
from math import sqrt
from operator import attrgetter
from shlex import quote
from typing import Final

from purgatory.printable import counted
from purgatory.spark.report import formatting
from purgatory.spark.report.content import (
    Advice,
    EndCount,
    JobsReport,
    JobSummary,
    Kind,
    WorkerJobs,
)
from purgatory.spark.report.formatting import count, duration, share
from purgatory.spark.report.jobs.time_limits import effect_of_time_limit, limit_above_all

# For a rule about shares or quantiles.
MIN_JOBS: Final = 100
# Dead jobs are reported from so many on, and a percent of the kind's.
MIN_DEAD: Final = 10
_MIN_DEAD_SHARE: Final = 0.01
# A job that begins so much later than due is late. Jobs wait for workers if a tenth of them do.
LATE_MS: Final = 1000
# A time limit is worth a line for so much of the attempts' time.
_SAVED: Final = 0.05
# The share of jobs saved by further attempts: few below this, many above the next.
_FEW_SAVED: Final = 0.01
_MANY_SAVED: Final = 0.2
# Jobs come in bursts if this part is due in one minute of the hour.
_BURST: Final = 0.2
_NOT_BEGUN: Final = "not begun in time"  # see `lease_ends.NOT_BEGUN`
# A worker stands out with so many times more dead jobs, beyond chance.
_TIMES: Final = 3
_STANDARD_ERRORS: Final = 4
_FIRST_LETTERS: Final = 12  # of a connection's name

Rule = Callable[["JobsReport", "JobSummary"], Advice | None]


def job_advice(report: JobsReport) -> list[Advice]:
    """Return all advice: the rules in order, for each the worst kinds first."""
    return [advice for _, advice in _found(report)]


def kinds_with_advice(report: JobsReport) -> list[Kind]:
    """Return the kinds with advice, each once."""
    return list(dict.fromkeys(kind for kind, _ in _found(report)))


def _found(report: JobsReport) -> Iterator[tuple[Kind, Advice]]:
    for rule, weight in RULES.items():
        for summary in sorted(report.summaries, key=weight, reverse=True):
            kind = summary.kind
            if not kind.total and kind.name is not None and (advice := rule(report, summary)):
                yield kind, advice


def dead_jobs(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report dead jobs and their most frequent error."""
    dead, ended = summary.dead, summary.ended
    if dead < MIN_DEAD or dead < _MIN_DEAD_SHARE * ended:
        return None
    errors = [row for row in report.errors if row.kind == summary.kind and row.dead]
    cause = ""
    if errors:
        error = formatting.name(errors[0].error, 80)
        cause = f"{share(errors[0].dead / dead)} of them with “{error}”. "
    return Advice(
        f"{summary.kind}: {count(dead)} of {count(ended)} ends were dead",
        f"{cause}Once the cause is gone, those that are still dead can be tried again:",
        f"purgatory jobs retry --kind={_shell_word(summary.kind.name or '')}",
    )


def _shell_word(text: str) -> str:
    """Return the exact text as a word of a shell, in printable characters."""
    if text.isprintable():
        return quote(text)
    letters = (one if one.isprintable() and one not in "'\\" else _octal(one) for one in text)
    return f"$'{''.join(letters)}'"


def _octal(letter: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogatepass"))


def not_begun(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report jobs cancelled because no worker began them in time."""
    found = sum(
        row.cancelled
        for row in report.errors
        if row.kind == summary.kind and row.error == _NOT_BEGUN
    )
    if found < MIN_DEAD or found < _MIN_DEAD_SHARE * summary.ended:
        return None
    return Advice(
        f"{summary.kind}: {count(found)} of {count(summary.ended)} jobs were not begun in time",
        "They were cancelled for their start_within. More workers, or a longer start_within, would "
        "have them run.",
    )


def too_few_workers(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report jobs that began late."""
    del report
    if summary.begun < MIN_JOBS or summary.queue_ms[1] < LATE_MS:
        return None
    half, tenth = map(duration, summary.queue_ms[:2])
    peak = f"At most {count(summary.peak)} ran at once. " if summary.peak else ""
    return Advice(
        f"{summary.kind}: a tenth of the jobs began about {tenth} late or later",
        f"Half of them began within about {half}. {peak}If the kind was neither paused nor limited "
        "(purgatory jobs limit), start more workers, or raise the concurrency of its handler.",
    )


def bursts(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report jobs that are due in the same minute of the hour, and late."""
    rows = report.minutes.get(summary.kind, ())
    late = summary.begun >= MIN_JOBS and summary.queue_ms[1] >= LATE_MS
    if not late or not rows:
        return None
    most: EndCount = max(rows, key=lambda row: row.ended)
    part = most.ended / summary.ended
    if part < _BURST:
        return None
    return Advice(
        f"{summary.kind}: {share(part)} of the jobs were due in minute {most.value} of an hour",
        f"A tenth of all began about {duration(summary.queue_ms[1])} late or later. The jitter of "
        "a repeat, or other times, would spread them.",
    )


def long_attempts(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Propose a time limit if failed attempts took longer than all successful attempts."""
    runs = report.runs.get(summary.kind, ())
    limit_ms = limit_above_all(runs)
    if sum(row.done for row in runs) < MIN_JOBS or limit_ms is None:
        return None
    effect = effect_of_time_limit(summary.kind, runs, limit_ms)
    spent = sum(row.value * row.ended for row in runs)
    if effect.saved_ms < _SAVED * spent or effect.saved_ms < LATE_MS:
        return None
    failed = sum(row.dead + row.cancelled for row in runs if row.value > limit_ms)
    return Advice(
        f"{summary.kind}: a time limit of {duration(limit_ms)}",
        f"No job that was done took longer. {counted(failed, 'attempt')} that failed did, and "
        f"would have ended {duration(effect.saved_ms)} sooner in all:",
        f"@worker.on({summary.kind.name!r}, timeout={limit_ms / 1000:g})",
    )


def vain_retries(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report further attempts that do hardly a job."""
    again = [row for row in report.attempts.get(summary.kind, ()) if row.value > 1]
    done, dead = sum(row.done for row in again), sum(row.dead for row in again)
    if done + dead < MIN_JOBS or done >= _FEW_SAVED * (done + dead):
        return None
    return Advice(
        f"{summary.kind}: retries hardly help",
        f"Of {count(done + dead)} jobs with more than one attempt, without cancelled jobs, "
        f"{count(done)} {'was' if done == 1 else 'were'} done. With fewer (max_attempts) they are "
        "dead sooner, and cost less.",
    )


def last_attempts(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report a last attempt that does many jobs: another may, too."""
    rows = report.attempts.get(summary.kind, ())
    dead = [row for row in rows if row.dead]
    if not dead or dead[-1].value < 2 or dead[-1] != rows[-1]:
        return None
    last = dead[-1]
    tried = last.done + last.dead
    if tried < MIN_JOBS or last.done < _MANY_SAVED * tried:
        return None
    return Advice(
        f"{summary.kind}: more than {count(last.value)} attempts",
        f"Of {count(tried)} jobs that came to attempt {count(last.value)}, "
        f"{share(last.done / tried)} were done by then, and the rest are dead. A larger "
        "max_attempts is worth a try.",
    )


def bad_worker(report: JobsReport, summary: JobSummary) -> Advice | None:
    """Report a worker whose jobs die more often than others'."""
    workers = [row for row in report.workers if row.kind == summary.kind]
    worst = max(workers, key=_dead_share, default=None)
    if worst is None or worst.done + worst.dead < MIN_DEAD:
        return None
    others = [row for row in workers if row is not worst]
    done, dead = sum(row.done for row in others), sum(row.dead for row in others)
    if done + dead < MIN_JOBS or not _stands_out(worst, dead / (done + dead)):
        return None
    return Advice(
        f"{summary.kind}: look at worker {formatting.name(worst.worker, _FIRST_LETTERS)}",
        f"{share(_dead_share(worst))} of its jobs are dead; of the other workers' jobs "
        f"{share(dead / (done + dead))}.",
    )


def _dead_share(row: WorkerJobs) -> float:
    return row.dead / max(1, row.done + row.dead)


def _stands_out(worker: WorkerJobs, usual: float) -> bool:
    difference = _dead_share(worker) - usual
    error = sqrt(max(usual * (1 - usual), _MIN_DEAD_SHARE) / (worker.done + worker.dead))
    return _dead_share(worker) >= _TIMES * usual and difference > _STANDARD_ERRORS * error


def _late(summary: JobSummary) -> int:
    return summary.queue_ms[1] if summary.queue_ms else 0


#: Rules, the weightiest first, with the measure of the worst kinds.
RULES: Final[dict[Rule, Callable[[JobSummary], int]]] = {
    dead_jobs: attrgetter("dead"),
    not_begun: attrgetter("cancelled"),
    too_few_workers: _late,
    bursts: _late,
    bad_worker: attrgetter("dead"),
    long_attempts: attrgetter("dead"),
    vain_retries: attrgetter("dead"),
    last_attempts: attrgetter("dead"),
}
