"""`purgatory jobs`."""

from typing import Final

from purgatory.cli.jobs.change import add_changes
from purgatory.cli.jobs.kinds import add_kinds
from purgatory.cli.jobs.look import add_list, add_show
from purgatory.cli.jobs.schedule import add_schedule
from purgatory.cli.options import SubParsers, add_group

_DESCRIPTION: Final = """\
See and steer the jobs of a server. A job is scheduled (not due), ready (due, not begun), running,
retrying (waits for its next attempt), done, dead (given up after its last attempt) or cancelled. A
key without the right administer sees only its client's jobs. A new job belongs to --name: workers
of that name run the job."""

_EXAMPLES: Final = """\
examples:
  purgatory jobs schedule --in 30m --kind mail --payload '{"to": "ada"}' --name shop
  purgatory jobs list --state dead --kind mail
  purgatory jobs cancel --tag customer:42
  purgatory jobs retry --kind mail
  purgatory jobs pause mail

exit codes: 0 done, 1 a negative answer (see each command's help), 2 an error"""


def add_parsers(subparsers: SubParsers) -> None:
    """Add `jobs`."""
    commands = add_group(subparsers, "jobs", "list, show and change jobs", _DESCRIPTION, _EXAMPLES)
    for add in (add_list, add_show, add_schedule, add_changes, add_kinds):
        add(commands)
