"""`purgatory store copy`: move the data of servers from SQLite to PostgreSQL, or back."""

import argparse
from collections import deque
from typing import Final

from purgatory.cli.options import SubParsers, add_command, from_environment, import_extra
from purgatory.cli.output import say
from purgatory.cli.process import leaving_on_sigterm
from purgatory.cli.progress import progress_shown
from purgatory.cli.store.shared_database import without_password
from purgatory.printable import counted
from purgatory.service.config import PREFIX

_DESCRIPTION: Final = """\
Copy a whole store to a new store: operations, outcomes, jobs, repeats, leases, remembered ids.
Stop the servers of both first. The source stays as it is, but that of an earlier version is
migrated; start servers on one of the two only, for both would give the same numbers. Journal files
and keys are not copied."""

_EXAMPLES: Final = """\
examples:
  purgatory store copy --from purgatory-data --to postgresql://db1,db2/purgatory
  purgatory store copy --from postgresql://db1,db2/purgatory --to new-data

exit codes: 0 the copy is whole, 2 an error: a server runs, or the target is not empty"""


def add_copy(commands: SubParsers) -> None:
    """Add the command."""
    summary = "copy all data from SQLite to PostgreSQL, or back"
    parser = add_command(commands, "copy", _copy, summary, _DESCRIPTION, _EXAMPLES)
    place = "a data directory, or the URL of a database"
    parser.add_argument("--from", dest="source", metavar="DIR|URL", required=True, help=place)
    parser.add_argument(
        "--to", dest="target", metavar="URL|DIR", required=True, help="likewise, new"
    )
    text = f"a part of the database ({PREFIX}PARTITION)"
    default = from_environment("partition", "")
    parser.add_argument("--partition", metavar="NAME", default=default, help=text)


def _copy(arguments: argparse.Namespace) -> int:
    ends = import_extra("purgatory.service.store_copy.ends", "service")
    done = deque([0], maxlen=1)
    with leaving_on_sigterm(), progress_shown(lambda: counted(done[-1], "record")):
        copied = ends.copy_store(
            arguments.source, arguments.target, arguments.partition, done.append
        )
    say(
        f"{without_password(arguments.target)}: {counted(copied.operations, 'operation')}, "
        f"{counted(copied.outcomes, 'outcome')}, {counted(copied.remembered, 'remembered id')}"
    )
    return 0
