"""`purgatory repeats`: jobs by the calendar or at intervals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import BAD_NEWS, add_connection_options, connected
from purgatory.cli.operations import parsed_value
from purgatory.cli.options import (
    COUNT,
    DURATION,
    Distinct,
    SubParsers,
    add_command,
    add_group,
    add_json_option,
    import_extra,
)
from purgatory.cli.output import (
    json_text,
    optional_text,
    print_facts,
    print_table,
    report_missing,
    say,
)
from purgatory.printable import counted
from purgatory.service.client.pages import items_of
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.client.repeats.repeat_handle import RepeatHandle

_COUNT: Final = 10
_END: Final = datetime.max.replace(tzinfo=UTC)
_HEAD: Final = ("repeat", "client", "kind", "times", "next", "last", "skipped")
_DESCRIPTION: Final = """\
Have a server schedule jobs by the calendar or at intervals, and see, pause and run these repeats.
Their jobs go to the workers of the client that has declared them, --name."""

_EXAMPLES: Final = """\
examples:
  purgatory repeats set nightly --cron "30 2 * * *" --tz Europe/Berlin --kind report --name shop
  purgatory repeats set poll --every 15m --kind poll --name shop
  purgatory repeats list
  purgatory repeats next nightly --count 10
  purgatory repeats next --cron "0 9 * * MON-FRI" --tz Europe/Berlin
  purgatory repeats pause nightly

exit codes: 0 done, 1 there is no repeat of that name or, with run, its last job has not ended,
2 an error"""

_CHANGES: Final = {
    "pause": "have no more jobs scheduled",
    "resume": "have jobs scheduled again",
    "delete": "delete repeats; jobs that they have scheduled stay",
    "run": "have a job run now, too",
}
_DONE: Final = {"pause": "paused", "resume": "resumed", "delete": "deleted", "run": "runs now"}


def add_parsers(subparsers: SubParsers) -> None:
    """Add `purgatory repeats`."""
    summary = "jobs by the calendar or at intervals"
    commands = add_group(subparsers, "repeats", summary, _DESCRIPTION, _EXAMPLES)
    listed = add_command(commands, "list", _list, "list all that the key may see")
    shown = add_command(commands, "show", _show, "show some, with payload")
    shown.add_argument("names", metavar="NAME", nargs="+", action=Distinct, help="of a repeat")
    _add_set(commands)
    for change, text in _CHANGES.items():
        parser = add_command(commands, change, _change, text)
        parser.add_argument("names", metavar="NAME", nargs="+", action=Distinct, help="of a repeat")
        parser.set_defaults(change=change)
        _add_selection(parser)
    for parser in (listed, shown):
        add_json_option(parser)
        _add_selection(parser)
    _add_next(commands)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client", help="only repeats of this client")
    add_connection_options(parser)


def _add_set(commands: SubParsers) -> None:
    parser = add_command(commands, "set", _set, "declare a repeat, or replace its settings")
    parser.add_argument("repeat", metavar="NAME", help="of the repeat, one for each client")
    times = parser.add_mutually_exclusive_group(required=True)
    times.add_argument("--cron", metavar="EXPRESSION", help="minute hour day month weekday")
    times.add_argument("--every", help="an interval: 90, 15m, 1h30m", **DURATION)
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="of --cron (UTC)")
    parser.add_argument("--kind", default="", help="chooses the worker's handler")
    parser.add_argument("--payload", metavar="VALUE", help="for the handler: JSON, or else a text")
    parser.add_argument(
        "--overlap", choices=("skip", "allow"), default="skip", help="while a job has not ended"
    )
    parser.add_argument(
        "--missed",
        choices=("one", "none", "all"),
        default="one",
        help="which times run that passed while no server ran, or during a pause",
    )
    parser.add_argument(
        "--jitter", default=0.0, help="each job is later, by up to this", **DURATION
    )
    add_json_option(parser)
    add_connection_options(parser)


def _add_next(commands: SubParsers) -> None:
    summary = "show the next times of one, or of --cron without a server"
    parser = add_command(commands, "next", _next, summary)
    parser.add_argument("repeat", metavar="NAME", nargs="?", help="of a repeat")
    parser.add_argument(
        "--cron", metavar="EXPRESSION", help="minute hour day month weekday, instead of NAME"
    )
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="of --cron (UTC)")
    parser.add_argument("--count", default=_COUNT, help=f"so many ({_COUNT})", **COUNT)
    add_json_option(parser)
    _add_selection(parser)


def _set(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        repeat = client.repeat(
            arguments.repeat,
            cron=arguments.cron,
            every=arguments.every,
            tz=arguments.tz,
            kind=arguments.kind,
            payload=parsed_value("--payload", arguments.payload),
            overlap=arguments.overlap,
            missed=arguments.missed,
            jitter=arguments.jitter,
        )
        _print([repeat], as_json=arguments.json)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = _repeats(client, arguments.client)
        if arguments.json:
            _print(found, as_json=True)
        else:
            print_table(_HEAD, [_row(repeat) for repeat in found])
            print(counted(len(found), "repeat"))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = [_find(client, name, arguments.client) for name in arguments.names]
        _print([repeat for repeat in found if repeat is not None], as_json=arguments.json)
    return 0 if all(found) else BAD_NEWS


def _change(arguments: argparse.Namespace) -> int:
    code = 0
    with connected(arguments) as client:
        for name in arguments.names:
            repeat = _find(client, name, arguments.client)
            if repeat is None:
                code = BAD_NEWS
            elif getattr(repeat, arguments.change)():
                say(f"{name}: {_DONE[arguments.change]}")
            else:
                say(f"{name}: its last job has not ended, and overlap is skip")
                code = BAD_NEWS
    return code


def _next(arguments: argparse.Namespace) -> int:
    if (arguments.repeat is None) == (arguments.cron is None):
        raise ConfigError("repeats next: expected NAME or --cron, one of the two")
    if arguments.cron is not None:
        _print_times(_preview(arguments.cron, arguments.tz, arguments.count), arguments)
        return 0
    with connected(arguments) as client:
        repeat = _find(client, arguments.repeat, arguments.client)
        if repeat is None:
            return BAD_NEWS
        if repeat.paused:
            say(f"{repeat.name}: it is paused", file=sys.stderr)
        _print_times(_times_of(repeat, arguments.count), arguments)
    return 0


def _preview(cron: str, tz: str, count: int) -> list[datetime]:
    next_times = import_extra("purgatory.cron.preview", "service").next_times
    try:
        times: list[datetime] = next_times(cron, tz, count)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return times


def _times_of(repeat: RepeatHandle, count: int) -> list[datetime]:
    if repeat.cron is not None:
        return _preview(repeat.cron, repeat.tz, count)
    first = repeat.next
    if first is None:
        return []
    every = timedelta(seconds=repeat.every or 0.0)
    left = (_END - first) // every + 1  # fewer if the calendar ends before
    return [first + number * every for number in range(min(count, left))]


def _print_times(times: Iterable[datetime], arguments: argparse.Namespace) -> None:
    for time in times:
        text = time.isoformat(timespec="milliseconds" if time.microsecond else "seconds")
        print(json_text({"time": text}) if arguments.json else text)


def _repeats(client: Client, owner: str | None, name: str | None = None) -> list[RepeatHandle]:
    make = import_extra("purgatory.service.client.repeats.repeat_handle", "service").RepeatHandle
    filters = {"client": owner, "name": name}
    states = items_of(client.repeats_page, lambda page: page.repeats, sys.maxsize, filters)
    return [make(client, state) for state in states]


def _find(client: Client, name: str, owner: str | None) -> RepeatHandle | None:
    """Return the repeat of a name, or report that none exists.

    Of several clients' repeats, that of --name; ConfigError if it has none.
    """
    found = _repeats(client, owner, name)
    own = [repeat for repeat in found if repeat.client == client.name]
    if len(found) > 1 and not own:
        names = ", ".join(repeat.client for repeat in found)
        raise ConfigError(f"{name}: {names} have a repeat of that name; expected --client")
    if not found:
        report_missing([name], "there is no such repeat")
        return None
    return own[0] if own else found[0]


def _times(repeat: RepeatHandle) -> str:
    if repeat.cron is None:
        return f"every {repeat.every:.15g} s"
    return f"{repeat.cron} ({repeat.tz})"


def _row(repeat: RepeatHandle) -> tuple[str, ...]:
    following = "paused" if repeat.paused else _moment(repeat.next)
    last = _moment(repeat.last)
    skipped = str(repeat.skipped)
    return repeat.name, repeat.client, repeat.kind, _times(repeat), following, last, skipped


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(" ", "seconds")


def _print(repeats: Iterable[RepeatHandle], *, as_json: bool) -> None:
    if as_json:
        for repeat in repeats:
            print(json_text(_json(repeat)))
    else:
        print_facts(_facts(repeat) for repeat in repeats)


def _facts(repeat: RepeatHandle) -> dict[str, str]:
    return {
        "repeat": repeat.name,
        "client": repeat.client,
        "times": _times(repeat),
        "kind": repeat.kind,
        "payload": optional_text(repeat.payload),
        "overlap": repeat.overlap,
        "missed": repeat.missed,
        "jitter": f"{repeat.jitter:.15g} s" if repeat.jitter else "",
        "next": "paused" if repeat.paused else _moment(repeat.next),
        "last": _moment(repeat.last),
        "skipped": str(repeat.skipped),
    }


def _json(repeat: RepeatHandle) -> dict[str, Any]:
    names = (
        *("name", "client", "cron", "every", "tz", "kind", "payload"),
        *("overlap", "missed", "jitter", "paused", "skipped"),
    )
    moments = {
        name: None if moment is None else moment.astimezone(UTC).isoformat()
        for name, moment in (("next", repeat.next), ("last", repeat.last))
    }
    return {name: getattr(repeat, name) for name in names} | moments
