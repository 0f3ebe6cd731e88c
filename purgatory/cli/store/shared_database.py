"""`purgatory store status` and `handover`."""

from __future__ import annotations

import argparse
import contextlib
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import BAD_NEWS
from purgatory.cli.options import (
    DURATION,
    SubParsers,
    add_command,
    add_json_option,
    import_extra,
    optional_path,
)
from purgatory.cli.output import json_text, print_facts, say
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError
from purgatory.service.store.lease import LeaseRow

if TYPE_CHECKING:
    from purgatory.service.cluster.store_report import StoreReport


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for database and partition."""
    parser.add_argument("--store", metavar="URL", help="of the database (PURGATORY_STORE)")
    parser.add_argument("--partition", metavar="NAME", help="a part of it (PURGATORY_PARTITION)")
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings")


def store_config(arguments: argparse.Namespace) -> Config:
    """Return the settings of a database. Raises ConfigError."""
    names = {"store": arguments.store, "partition": arguments.partition}
    config = Config.load(names, file=optional_path(arguments.config))
    if not config.store:
        raise ConfigError("no store is named; expected --store postgresql://host/database")
    return config


@contextlib.contextmanager
def lease_row(config: Config) -> Iterator[LeaseRow]:
    """Open the row of the lease, without ever taking the lease."""
    opening = import_extra("purgatory.service.store.opening", "service")
    row: LeaseRow = opening.open_lease_row(config.store, config.partition, "", "")
    try:
        yield row
    finally:
        row.close()


def without_password(url: str) -> str:
    """Return a URL to show."""
    shown = re.sub(r"//([^:@/]*):[^@/]*@", r"//\1@", url)
    return re.sub(r"(?<=[?&])(ssl)?password=[^&]*&?", "", shown).rstrip("?&")


_STATUS: Final = """\
Show which server is active, how often servers took over, when the last commit was, which servers
stand by, and whether the database has a synchronous standby of its own."""

_STATUS_EXAMPLES: Final = """\
examples:
  purgatory store status --store postgresql://db1,db2/purgatory
  PURGATORY_STORE=postgresql://db/purgatory purgatory store status --json

exit codes: 0 a server is active, 1 none is or it gives no sign of life, 2 an error, also if no
server has made the tables yet"""


def add_status(commands: SubParsers) -> None:
    """Add `store status`."""
    summary = "show which server is active, and which stand by"
    parser = add_command(commands, "status", _status, summary, _STATUS, _STATUS_EXAMPLES)
    add_store_options(parser)
    add_json_option(parser)


def _status(arguments: argparse.Namespace) -> int:
    config = store_config(arguments)
    look = import_extra("purgatory.service.cluster.store_report", "service").look_at_store
    with lease_row(config) as row:
        report: StoreReport = look(row, config.takeover_after)
    facts = _facts(without_password(config.store), config.partition, report)
    if arguments.json:
        print(json_text(facts))
    else:
        print_facts([_texts(facts)])
    return 0 if report.is_alive else BAD_NEWS


def _facts(store: str, partition: str, report: StoreReport) -> dict[str, Any]:
    seen = report.seen
    return {
        "store": store,
        "partition": partition,
        "active": seen.address if seen.holder else None,
        "is_alive": report.is_alive,
        "holder": seen.holder or None,
        "epoch": seen.epoch,
        "commits": seen.commits,
        "last_commit_s": None if seen.last_commit_s < 0 else round(seen.last_commit_s, 3),
        "replicated": seen.replicated,
        "standbys": report.standbys,
        "clock_drift_ms": seen.drift_ms,
        "handover": seen.handover,
    }


def _texts(facts: dict[str, Any]) -> dict[str, str]:
    active = facts["active"] or "none"
    if facts["active"] and not facts["is_alive"]:
        active += ", which gives no sign of life"
    if facts["handover"]:
        active += ", about to hand over"
    last = facts["last_commit_s"]
    return {
        "store": facts["store"],
        **({"partition": facts["partition"]} if facts["partition"] else {}),
        "active": active,
        "epoch": str(facts["epoch"]),
        "last commit": "none yet" if last is None else f"{last:.1f} s ago",
        "commits": f"{facts['commits']:,}",
        "replicated": "yes: commits wait for a synchronous standby of the database"
        if facts["replicated"]
        else "no: what was acknowledged is lost with the database's machine",
        "standbys": ", ".join(facts["standbys"]) or "none",
        "clock": f"{facts['clock_drift_ms'] / 1000:+.3f} s from the database's",
    }


_HANDOVER: Final = """\
Have the active server answer what is in flight and stand by, and a standby take over. Clients that
know both addresses go on by themselves."""

_HANDOVER_EXAMPLES: Final = """\
examples:
  purgatory store handover --store postgresql://db1,db2/purgatory

exit codes: 0 another server is active, 1 none stands by, or none has taken over, 2 an error"""


_PATIENCE_S: Final = 60.0


def add_handover(commands: SubParsers) -> None:
    """Add `store handover`."""
    summary = "have a standby become the active server"
    parser = add_command(commands, "handover", _hand_over, summary, _HANDOVER, _HANDOVER_EXAMPLES)
    add_store_options(parser)
    parser.add_argument(
        "--timeout", default=_PATIENCE_S, help="how long to wait for it (60s)", **DURATION
    )


def _hand_over(arguments: argparse.Namespace) -> int:
    config = store_config(arguments)
    report = import_extra("purgatory.service.cluster.store_report", "service")
    begin = time.monotonic()
    with lease_row(config) as row:
        try:
            seen = report.hand_over(row, arguments.timeout)
        except report.HandoverRefused as error:
            say(str(error))
            return BAD_NEWS
    seconds = time.monotonic() - begin
    say(f"{seen.address} is active, with epoch {seen.epoch}, after {seconds:.1f} s")
    return 0
