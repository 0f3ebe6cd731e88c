"""`purgatory jobs schedule`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import BAD_NEWS, add_connection_options, connected
from purgatory.cli.jobs.selection import add_time, time_of
from purgatory.cli.operations import parsed_value
from purgatory.cli.options import DURATION, SubParsers, add_command, whole_number
from purgatory.cli.output import json_text, say, value_text
from purgatory.service.errors import JobCancelled, JobFailed, JobUnknown

if TYPE_CHECKING:
    from purgatory.service.client.jobs.job_handle import JobHandle

_DESCRIPTION: Final = """\
Have a worker of the client --name do a job. Prints the job's id when the job is on disk."""
_EXAMPLES: Final = """\
examples:
  purgatory jobs schedule --in 30m --kind mail --payload '{"to": "ada"}' --name shop
  purgatory jobs schedule --at 2027-03-01T09:00 --kind report --id report-march
  purgatory jobs schedule --in 0 --kind mail --name shop --wait

exit codes: 0 done, 1 the server had the job already (nothing was changed), with --wait instead: the
job did not end as done (stderr says why), 2 an error"""


def add_schedule(commands: SubParsers) -> None:
    """Add `jobs schedule`."""
    parser = add_command(
        commands, "schedule", _schedule, "schedule a job for a worker", _DESCRIPTION, _EXAMPLES
    )
    add_time(parser)
    parser.add_argument("--kind", default="", help="chooses the worker's handler")
    parser.add_argument("--payload", metavar="VALUE", help="for the handler: JSON, or else a text")
    parser.add_argument("--id", metavar="ID", help="its id; a known id adds no second job")
    parser.add_argument(
        "--unique-for", help="how long the id is remembered after the job's end", **DURATION
    )
    parser.add_argument("--tag", action="append", default=[], help="to find the job (repeatable)")
    parser.add_argument(
        "--unless",
        metavar="KEY",
        action="append",
        default=[],
        help="completing the key cancels the job (repeatable)",
    )
    parser.add_argument(
        "--priority", type=whole_number, default=0, metavar="N", help="-10 to 10, higher first (0)"
    )
    parser.add_argument(
        "--start-within",
        help="cancel the job if it has not begun so long after it was due",
        **DURATION,
    )
    parser.add_argument(
        "--json", action="store_true", help="print id and is_new, and the value, as JSON"
    )
    parser.add_argument(
        "--wait", action="store_true", help="until the job ends; prints the handler's value"
    )
    add_connection_options(parser)


def _schedule(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        job = client.schedule(
            **time_of(arguments),
            kind=arguments.kind,
            payload=parsed_value("--payload", arguments.payload),
            job_id=arguments.id,
            tags=arguments.tag,
            unless=arguments.unless,
            unique_for=arguments.unique_for,
            priority=arguments.priority,
            start_within=arguments.start_within,
        )
        if arguments.wait:
            return _wait(job, arguments.json)
    if arguments.json:
        print(json_text(_facts(job)))
    else:
        say(job.id if job.is_new else f"{job.id}: the server had this job already")
    return 0 if job.is_new else BAD_NEWS


def _facts(job: JobHandle) -> dict[str, Any]:
    return {"job_id": job.id, "is_new": job.is_new}


def _wait(job: JobHandle, as_json: bool) -> int:
    try:
        value = job.result()
    except (JobFailed, JobCancelled, JobUnknown) as end:
        say(str(end), file=sys.stderr)
        return BAD_NEWS
    if as_json:
        print(json_text(_facts(job) | {"value": value}))
    else:
        say(value_text(value))
    return 0
