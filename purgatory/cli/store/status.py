"""`purgatory store status`: the active server, and the standbys."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.options import SubParsers, add_command, add_json_option, import_extra
from purgatory.cli.output import json_text, print_facts
from purgatory.cli.store.shared_database import (
    add_store_options,
    lease_row,
    store_config,
    without_password,
)

if TYPE_CHECKING:
    from purgatory.service.cluster.store_report import StoreReport

_DESCRIPTION: Final = """\
Show which server is active, how often servers took over, when the last commit was, which servers stand
by, and whether the database has a synchronous standby of its own."""

_EXAMPLES: Final = """\
examples:
  purgatory store status --store postgresql://db1,db2/purgatory
  PURGATORY_STORE=postgresql://db/purgatory purgatory store status --json

exit codes: 0 a server is active, 1 none is or it gives no sign of life, 2 an error, also if no
server has made the tables yet"""

_BAD_NEWS: Final = 1


def add_status(commands: SubParsers) -> None:
    """Add the command and its options."""
    summary = "show which server is active, and which stand by"
    parser = add_command(commands, "status", _status, summary, _DESCRIPTION, _EXAMPLES)
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
    return 0 if report.is_alive else _BAD_NEWS


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
    """Return the facts as an operator reads them."""
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
