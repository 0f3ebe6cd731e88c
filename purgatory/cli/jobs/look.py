"""`purgatory jobs list` and `show`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from purgatory.cli.connection import add_connection_options, answers, connected
from purgatory.cli.jobs.selection import add_filters, filters
from purgatory.cli.options import (
    Distinct,
    SubParsers,
    add_command,
    add_json_option,
    add_list_options,
)
from purgatory.cli.output import (
    age,
    list_tail,
    moment,
    optional_text,
    print_facts,
    print_json,
    print_records,
    report_missing,
    short,
    took,
)

if TYPE_CHECKING:
    from purgatory.service.job_messages import JobAttempt, JobStatus

_ORDERS: Final = ("due", "newest")
_HEAD: Final = ("job", "state", "kind", "due, or ended", "tries", "error, or why")
_LIST: Final = """\
List jobs, earliest due first or, with newest, latest scheduled first: ended ones for ten minutes
after their ends, of many, also acknowledged outcomes, the last 10,000."""
_LIST_EXAMPLES: Final = """\
examples:
  purgatory jobs list --state running
  purgatory jobs list --tag customer:42 --order newest
  purgatory jobs list --state dead --limit 1000000 --json > dead.jsonl

exit codes: 0 done, 2 an error"""
_SHOW_EXAMPLES: Final = """\
exit codes: 0 done, 1 a job is not known, 2 an error"""


def add_list(commands: SubParsers) -> None:
    """Add `jobs list`."""
    parser = add_command(commands, "list", _list, "list jobs", _LIST, _LIST_EXAMPLES)
    add_filters(parser)
    parser.add_argument("--order", choices=_ORDERS, default="due", help="which come first (due)")
    add_list_options(parser)
    add_connection_options(parser)


def add_show(commands: SubParsers) -> None:
    """Add `jobs show`."""
    summary = "show all that is known of some jobs"
    parser = add_command(commands, "show", _show, summary, None, _SHOW_EXAMPLES)
    parser.add_argument("ids", metavar="ID", nargs="+", action=Distinct, help="of a job")
    add_json_option(parser)
    add_connection_options(parser)


def _list(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = client.jobs(**filters(arguments), order=arguments.order, limit=arguments.limit)
        row, tail = partial(_row, is_wide=arguments.wide), list_tail("job", arguments.limit)
        print_records(found, _HEAD, row, tail, as_json=arguments.json, is_wide=arguments.wide)
    return 0


def _row(job: JobStatus, *, is_wide: bool) -> tuple[str, ...]:
    whole: Callable[[str], str] = str if is_wide else short
    time: Callable[[int], str] = moment if is_wide else age
    return (
        *(whole(job.job_id), job.state, whole(job.kind)),
        time(job.due_ms if job.ended_ms is None else job.ended_ms),
        str(job.attempts),
        job.why or job.error,
    )


def _show(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        statuses = answers(client, client.job_later, arguments.ids)
    found = dict(zip(arguments.ids, statuses, strict=True))
    jobs = [job for job in found.values() if job is not None]
    if arguments.json:
        print_json(jobs)
    else:
        print_facts(map(_facts, jobs))
    missing = [job_id for job_id, job in found.items() if job is None]
    return report_missing(missing, "the server does not know this job")


def _facts(job: JobStatus) -> dict[str, str]:
    most = "" if job.max_attempts is None else f" of {job.max_attempts}"
    facts = {
        "job": job.job_id,
        "state": job.state,
        "why": job.why,
        "kind": job.kind,
        "client": job.client,
        "tags": ", ".join(job.tags),
        "unless": ", ".join(job.unless),
        "priority": str(job.priority) if job.priority else "",
        "scheduled": moment(job.submitted_ms),
        "due": moment(job.due_ms),
        "attempts": f"{job.attempts}{most}",
        "began": "" if job.began_ms is None else moment(job.began_ms),
        "worker": job.worker,
        "ended": "" if job.ended_ms is None else moment(job.ended_ms),
        "error": job.error,
        "result": optional_text(job.result),
        "payload": optional_text(job.payload),
    }
    if job.left_out:
        facts["left out"] = f"{job.left_out:,} bytes of result and payload"
    for attempt in job.history:
        name = f"attempt {attempt.number}"
        while name in facts:  # a retry of a dead job counts from 1 again
            name += " "
        facts[name] = _attempt(attempt)
    return facts


def _attempt(attempt: JobAttempt) -> str:
    seconds = attempt.seconds
    duration = "runs" if seconds is None else f"took {took(seconds)}"
    worker = f" on {attempt.worker}" if attempt.worker else ""
    end = "" if seconds is None else f": {attempt.error or 'done'}"
    return f"{moment(attempt.began_ms)}, {duration}{worker}{end}"
