"""`purgatory jobs cancel`, `retry`, `drop`, `run` and `reschedule`."""

import argparse
from collections.abc import Callable
from typing import Final

from purgatory.cli.connection import add_connection_options, answers, connected
from purgatory.cli.jobs.selection import add_filters, add_time, check_selection, filters, time_of
from purgatory.cli.options import Distinct, SubParsers, add_command
from purgatory.cli.output import report_done
from purgatory.printable import counted

_ENDED: Final = "it is dead, has ended, or is not known"
_WAITS_NOT: Final = "it runs, is dead, has ended, or is not known"
_NOT_ALL: Final = "exit codes: 0 done, 1 not done for one of the IDs, 2 an error"
_CANCEL: Final = """\
Cancel jobs, by id or all that match now. A running job gets no further attempt: it ends as done if
its handler succeeds, and else as cancelled. Dead jobs are not cancelled: see drop."""
_CANCEL_EXAMPLES: Final = f"""\
examples:
  purgatory jobs cancel mail-17
  purgatory jobs cancel --tag customer:42
  purgatory jobs cancel --kind report --state scheduled

{_NOT_ALL}"""
_RETRY: Final = """\
Retry dead jobs from the first attempt: by id, all matching jobs, or all."""
_DROP: Final = "Forget dead jobs: by id, all matching jobs, or all."


def add_changes(commands: SubParsers) -> None:
    """Add the commands that change jobs."""
    cancel = _add(commands, "cancel", _cancel, "cancel jobs", _CANCEL, _CANCEL_EXAMPLES)
    add_filters(cancel)
    for name, summary, text in (
        ("retry", "have dead jobs tried again", _RETRY),
        ("drop", "forget dead jobs", _DROP),
    ):
        parser = _add(commands, name, _end_dead, summary, text, _NOT_ALL)
        add_filters(parser, state=False)
        parser.add_argument("--all", action="store_true", help="all dead jobs")
        parser.set_defaults(verb=name)
    text = "Have jobs run now that are scheduled, ready or retrying."
    _add(commands, "run", _run, "run jobs now", text, _NOT_ALL, "+")
    text = "Move jobs to another time that are scheduled, ready or retrying."
    summary = "move jobs to another time"
    add_time(_add(commands, "reschedule", _reschedule, summary, text, _NOT_ALL, "+"))


def _add(
    commands: SubParsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    text: str,
    examples: str,
    count: str = "*",
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, summary, text, examples)
    parser.add_argument("ids", metavar="ID", nargs=count, action=Distinct, help="of a job")
    add_connection_options(parser)
    return parser


def _cancel(arguments: argparse.Namespace) -> int:
    check_selection("cancel", arguments)
    with connected(arguments) as client:
        if not arguments.ids:
            print(f"{counted(client.cancel_jobs(**filters(arguments)), 'job')} cancelled")
            return 0
        done = answers(client, client.cancel_job_later, arguments.ids)
    return report_done("job", arguments.ids, done, "cancelled", _ENDED)


def _end_dead(arguments: argparse.Namespace) -> int:
    check_selection(arguments.verb, arguments)
    with connected(arguments) as client:
        call = client.retry_job_later if arguments.verb == "retry" else client.drop_job_later
        # Among the newest, a retried job keeps its place.
        dead = client.jobs(**filters(arguments), state="dead", order="newest")
        done = answers(client, call, arguments.ids or (job.job_id for job in dead))
    words = "sent again" if arguments.verb == "retry" else "dropped"
    if arguments.ids:
        return report_done("job", arguments.ids, done, words, "no dead job has this id")
    print(f"{counted(sum(done), 'job')} {words}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        done = answers(client, client.run_job_later, arguments.ids)
    return report_done("job", arguments.ids, done, "to be run now", _WAITS_NOT)


def _reschedule(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        done = answers(client, client.reschedule_job_later, arguments.ids, **time_of(arguments))
    return report_done("job", arguments.ids, done, "moved", _WAITS_NOT)
