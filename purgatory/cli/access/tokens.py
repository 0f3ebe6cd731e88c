"""`purgatory tokens`: make the tokens with which programs speak to a gateway, and revoke them.

Called from the main thread. Nothing of the extra is imported before the command runs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from purgatory.cli.access.directory import add_directory_options, keys_directory
from purgatory.cli.extras import import_extra

if TYPE_CHECKING:
    from purgatory.service.auth.access import Access
    from purgatory.service.auth.token_store import TokenStore

_DESCRIPTION = """\
Tokens for programs that use `purgatory gateway`. A token is for the operations of one client, NAME;
a client may have several, so that one can be replaced. Only hashes are kept. A running gateway
knows at once what was made and revoked."""

_EXAMPLES = """\
examples, on the gateway's machine:
  purgatory tokens new shop                       prints a token: it is not shown again
  purgatory tokens new till --rights submit,read  it may do no more than that
  purgatory tokens list
  purgatory tokens revoke shop                    all of a client, or one by its id"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its subcommands."""
    parser = subparsers.add_parser(
        "tokens",
        help="make the tokens of a gateway, and revoke them",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="make a token")
    new.add_argument("name", metavar="NAME", help="client whose operations it is for")
    new.add_argument(
        "--rights",
        metavar="RIGHT,...",
        help="of submit, complete, read and administer (default: submit,complete,read)",
        default="submit,complete,read",
    )
    new.set_defaults(run=_new)
    revoke = commands.add_parser("revoke", help="make a token, or all of a client, useless")
    revoke.add_argument("name", metavar="NAME|ID")
    revoke.set_defaults(run=_revoke)
    shown = commands.add_parser("list", help="show which tokens there are")
    shown.set_defaults(run=_list)
    for command in (new, revoke, shown):
        add_directory_options(command)


def token_store(arguments: argparse.Namespace) -> TokenStore:
    """Return the tokens of the directory that the options name."""
    module = import_extra("purgatory.service.auth.token_store", "service")
    store: TokenStore = module.TokenStore(keys_directory(arguments))
    return store


def _new(arguments: argparse.Namespace) -> int:
    module = import_extra("purgatory.service.auth.access", "service")
    access: Access = module.Access(arguments.name, rights=arguments.rights.split(","))
    print(token_store(arguments).new(access))
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    count = token_store(arguments).revoke(arguments.name)
    print(f"{arguments.name}: {count} revoked" if count else f"{arguments.name}: no such token")
    return 0 if count else 1


def _list(arguments: argparse.Namespace) -> int:
    tokens = token_store(arguments).all()
    print("tokens:" if tokens else "tokens: none")
    for token in tokens:
        print(f"  {token.id}  {token.access.label}: {', '.join(token.access.rights)}")
    return 0
