"""`purgatory backup` and `purgatory restore`."""

import argparse
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from purgatory.cli.options import SubParsers, add_command, import_extra, optional_path
from purgatory.cli.output import say
from purgatory.cli.process import leaving_on_sigterm
from purgatory.cli.progress import bytes_below, progress_shown
from purgatory.printable import counted
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError
from purgatory.trace.path_conflicts import check_outputs

_MIB: Final = 1 << 20

_BACKUP: Final = """\
Copy database and journal of a server to a new directory, while it runs or not. All that it has
written before is in the copy, which is on disk when the command ends. Keys are not in it."""

_RESTORE: Final = """\
Make a new data directory of a backup, for a server in place of the former. Operations
that came due meanwhile expire when the server starts."""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the two commands."""
    summary = "copy the data of a server, while it runs"
    backup = add_command(subparsers, "backup", _back_up, summary, _BACKUP)
    backup.add_argument("target", metavar="DIR", help="new directory for the copy")
    backup.add_argument("--data-dir", metavar="DIR", help="of the server (purgatory-data)")
    backup.add_argument("--config", metavar="FILE", help="TOML file of settings")
    summary = "make a data directory of a backup"
    restore = add_command(subparsers, "restore", _restore, summary, _RESTORE)
    restore.add_argument("backup", metavar="DIR", help="directory that has the copy")
    restore.add_argument("--data-dir", metavar="NEW", required=True, help="new data directory")


def _back_up(arguments: argparse.Namespace) -> int:
    config = Config.load({"data_dir": arguments.data_dir}, file=optional_path(arguments.config))
    check_has_files(config)
    check_outputs({"DIR": arguments.target}, [config.database, config.journal_dir])
    target, backup = Path(arguments.target), _implementation()
    with leaving_on_sigterm(), _progress(target, config, backup):
        copied = backup.back_up(config, target)
    _report(arguments.target, copied)
    return 0


def check_has_files(config: Config) -> None:
    """Raise ConfigError if the data is in PostgreSQL, or in memory."""
    if config.memory:
        raise ConfigError("memory is set: the server keeps nothing on disk that could be copied")
    if config.store:
        schema = f"purgatory_{config.partition}" if config.partition else "purgatory"
        raise ConfigError(
            "store is set: the operations are in PostgreSQL, which this command does not copy; "
            f"use pg_dump --schema={schema} --format=custom"
        )


def _restore(arguments: argparse.Namespace) -> int:
    target = Path(arguments.data_dir)
    check_outputs({"--data-dir": target}, [arguments.backup])
    source, backup = Path(arguments.backup), _implementation()
    with leaving_on_sigterm(), _progress(target, Config(data_dir=source), backup):
        copied = backup.restore(source, target)
    _report(str(target), copied)
    return 0


def _progress(target: Path, source: Config, backup: ModuleType) -> AbstractContextManager[None]:
    unfinished = backup.unfinished_name(target)
    sources = [path for path in (source.database, source.journal_dir) if path is not None]

    def text() -> str:
        of = max(1, bytes_below(*sources))
        done = bytes_below(unfinished)
        return f"{target}: {done / _MIB:,.0f} of {of / _MIB:,.0f} MiB copied"

    return progress_shown(text)


def _implementation() -> ModuleType:
    return import_extra("purgatory.service.backup", "service")


def _report(target: str, copied: Any) -> None:
    say(
        f"{target}: a database of {copied.database_bytes:,} bytes, "
        f"{counted(copied.journal_files, 'file')} of the journal"
    )
