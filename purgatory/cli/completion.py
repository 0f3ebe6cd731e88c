"""`purgatory completion`: a shell's completion of commands and options, made with shtab.

Called from the main thread.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatory.cli.extras import import_extra

_SHELLS: Final = ("bash", "zsh", "fish")

_DESCRIPTION: Final = """\
Print the script with which a shell completes the commands and options of purgatory."""

_EXAMPLES: Final = """\
examples:
  purgatory completion bash > ~/.local/share/bash-completion/completions/purgatory
  purgatory completion zsh > ~/.zfunc/_purgatory        (with ~/.zfunc in $fpath)
  purgatory completion fish > ~/.config/fish/completions/purgatory.fish"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "completion",
        help="complete commands and options in a shell",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=_SHELLS, help="for which shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script; `arguments.whole` is the parser of the whole command line."""
    shtab = import_extra("shtab", "completion")
    print(shtab.complete(arguments.whole, shell=arguments.shell))
    return 0
