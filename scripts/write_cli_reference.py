#!/usr/bin/env python3
"""Write docs/reference/cli.md from the parsers of the command `purgatory`.

A test compares the page with the parsers. One thread.

    scripts/write_cli_reference.py
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from purgatory.cli.entry_point import make_parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
HEAD = """\
# Commands

`scripts/write_cli_reference.py` writes this page from the parsers. `purgatory COMMAND --help` says
the same.

Exit codes, where a command names no others: 0 done, 1 a negative answer (nothing was completed,
the id is unknown, the operation expired), 2 an error, 130 interrupted (`top`, `spark run`: 0), 141
the reader of a pipe is gone. Results are on stdout, errors on stderr.

A duration is a number of seconds or a text such as `30m`.

The options of a connection can also be environment variables: `PURGATORY_ADDRESS`,
`PURGATORY_NAME`, `PURGATORY_KEY`, `PURGATORY_SERVER_KEY`, `PURGATORY_PATIENCE`; for those of
`purgatory serve` see [the service](../service.md#settings). A command waits `--patience` for a
server; a wait that has begun goes on over restarts.

"""
#: What a section says instead of the options.
CONNECTED = "And the options of [a connection](#commands)."


def commands(
    parser: argparse.ArgumentParser, summary: str = ""
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield each command with its summary; groups of commands are left out."""
    groups = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not groups:
        yield parser, summary
    for group in groups:
        summaries = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, command in group.choices.items():
            yield from commands(command, summaries.get(name, ""))


def section(command: argparse.ArgumentParser, summary: str) -> str:
    """Return the section of one command."""
    actions = [action for action in command._actions if action.help is not argparse.SUPPRESS]
    places = [_place(action) for action in actions if not action.option_strings]
    usage = " ".join([command.prog, "[OPTIONS]", *places])
    parts = [f"## {command.prog}", f"```\n{usage}\n```", _text(command, summary)]
    shared = _connection(command)
    own = [each for each in actions if each not in shared and "--help" not in each.option_strings]
    if own:
        parts.append(_table(own))
    if shared:
        parts.append(CONNECTED)
    if command.epilog:
        parts.append(f"```\n{command.epilog.strip()}\n```")
    return "\n\n".join(parts)


def page() -> str:
    """Return the text of the page."""
    found = list(commands(make_parser()))
    connection = next(filter(None, (_connection(command) for command, _ in found)))
    parts = [HEAD.strip(), _table(connection), *(section(*each) for each in found)]
    return "\n\n".join(parts) + "\n"


def _connection(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a connection, if the command has all of them."""
    for group in command._action_groups:
        names = [name for action in group._group_actions for name in action.option_strings]
        if (group.title or "").startswith("connection") and "--name" in names:
            return group._group_actions
    return []


def _table(actions: Iterable[argparse.Action]) -> str:
    return "\n".join(["| argument | meaning |", "|---|---|", *map(_row, actions)])


def _text(command: argparse.ArgumentParser, summary: str) -> str:
    """Return the description of a command, or its summary, as a sentence."""
    text = command.description or summary[:1].upper() + summary[1:]
    return _plain(text if text.endswith((".", ":")) else f"{text}.")


def _place(action: argparse.Action) -> str:
    """Return a positional argument as a usage line has it."""
    name = _name(action)
    many = {"*": f"[{name}...]", "+": f"{name}...", "?": f"[{name}]"}
    return many.get(str(action.nargs), name)


def _name(action: argparse.Action) -> str:
    """Return the name of an argument's value."""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _row(action: argparse.Action) -> str:
    """Return the row of an argument in the table."""
    takes_value = bool(action.option_strings) and action.nargs != 0
    names = ", ".join(action.option_strings) or _place(action)
    shown = f"{names} {_name(action)}" if takes_value else names
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    meaning = (action.help or "") % values if action.help else ""
    required = " (required)" if action.required and action.option_strings else ""
    return f"| `{shown}` | {_plain(meaning)}{required} |".replace("``", "`")


def _plain(text: str) -> str:
    """Return a text of the help as Markdown."""
    return re.sub(r"([*_|<>])", r"\\\1", text.replace("%%", "%"))


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
