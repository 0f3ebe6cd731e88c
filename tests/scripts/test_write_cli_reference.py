"""Tests of `scripts/write_cli_reference.py`: the page of commands is what the parsers say."""

import argparse
import re

from purgatory.cli.entry_point import make_parser
from scripts import write_cli_reference


def test_the_page_is_what_the_parsers_say():
    """After a change of a command: run scripts/write_cli_reference.py."""
    assert write_cli_reference.PAGE.read_text() == write_cli_reference.page()


def test_each_command_has_a_section():
    """Groups of commands have sections for their commands alone."""
    found = re.findall(r"^## (.*)$", write_cli_reference.page(), re.MULTILINE)
    assert found == [command.prog for command, _ in write_cli_reference.commands(make_parser())]
    assert {"purgatory serve", "purgatory jobs list", "purgatory store status"} <= set(found)


def test_each_argument_has_a_meaning_of_its_own():
    """None is empty, and no two of a command are alike."""
    for command, _ in write_cli_reference.commands(make_parser()):
        texts = [action.help for action in command._actions]
        assert all(texts), command.prog
        assert len(set(texts)) == len(texts), command.prog


def test_the_options_of_a_connection():
    """The head has these once; the section of a command that takes them says so."""
    head, *sections = write_cli_reference.page().split("\n## ")
    for (command, _), section in zip(
        write_cli_reference.commands(make_parser()), sections, strict=True
    ):
        names = {name for action in command._actions for name in action.option_strings}
        if write_cli_reference.CONNECTED in section:
            section += head
        assert {name for name in names if name not in section} <= {"-h", "--help"}
        assert ("`--server-key" in section) == ("--server-key" in names)


def test_a_section():
    """Arguments, options with and without values, a default, what is required, and examples."""
    parser = argparse.ArgumentParser(prog="x", epilog="examples:\n  x 1")
    parser.add_argument("file", nargs="+", help="a file")
    parser.add_argument("--count", default=3, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--all", action="store_true", required=True, help="not *some*, 5 %%")
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    assert write_cli_reference.section(parser, "do this") == (
        "## x\n\n```\nx [OPTIONS] file...\n```\n\nDo this.\n\n"
        "| argument | meaning |\n|---|---|\n"
        "| `file...` | a file |\n"
        "| `--count N` | how many (default: 3) |\n"
        "| `--all` | not \\*some\\*, 5 % (required) |\n\n"
        "```\nexamples:\n  x 1\n```"
    )
