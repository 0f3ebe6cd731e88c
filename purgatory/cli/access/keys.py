"""`purgatory keys`: make key pairs, and say which clients a server lets in.

Called from the main thread. Nothing of the extra is imported before the command runs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from purgatory.cli.access.directory import add_directory_options, keys_directory
from purgatory.cli.extras import import_extra

if TYPE_CHECKING:
    from purgatory.service.auth.access import Access
    from purgatory.service.auth.key_store import KeyStore

_DESCRIPTION = """\
CURVE keys for a server that others than this machine can reach. The server has a key pair named
"server"; each client has one of its own, and the server lets in the clients on its list. A running
server reads the list again on SIGHUP."""

_EXAMPLES = """\
examples, on the server:
  purgatory keys new server          its pair; server.key is for the clients
  purgatory keys new shop            a pair for a client: hand on shop.key_secret
  purgatory keys allow shop          let that client in
  purgatory keys allow till KEY      let in one that made its pair itself (KEY: the key, or a file)
  purgatory keys allow till -- -KEY  another tool has made a key that begins with "-"
  purgatory keys allow billing --rights submit,read
                                     it may do no more than that, and only under its own name
  purgatory keys allow worker --name worker-1,worker-2 --rights complete
  purgatory keys list"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its subcommands."""
    parser = subparsers.add_parser(
        "keys",
        help="make keys, and say which clients are let in",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="make a key pair")
    new.add_argument("name", metavar="NAME", help='of the client; "server" for the server itself')
    new.set_defaults(run=_new)
    allow = commands.add_parser("allow", help="let a client in")
    allow.add_argument("name", metavar="NAME", help="what it is called here")
    allow.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help="its public key, or a file that has it (default: NAME.key in the directory)",
    )
    allow.add_argument(
        "--name",
        dest="names",
        metavar="NAME,...",
        help="client names that it may use; '*' for any (default: any or, with --rights, its own)",
    )
    allow.add_argument(
        "--rights",
        metavar="RIGHT,...",
        help="of submit, complete, read, work and administer (default: all)",
    )
    allow.set_defaults(run=_allow)
    revoke = commands.add_parser("revoke", help="let a client in no longer")
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(run=_revoke)
    shown = commands.add_parser("list", help="show the keys and the clients let in")
    shown.set_defaults(run=_list)
    for command in (new, allow, revoke, shown):
        add_directory_options(command)


def _keys(arguments: argparse.Namespace) -> KeyStore:
    module = import_extra("purgatory.service.auth.key_store", "service")
    keys: KeyStore = module.KeyStore(keys_directory(arguments))
    return keys


def _new(arguments: argparse.Namespace) -> int:
    keys = _keys(arguments)
    pair = keys.new(arguments.name)
    print(f"{keys.directory / arguments.name}.key_secret: keep it secret")
    print(f"{keys.directory / arguments.name}.key: {pair.public.decode()}")
    return 0


def _allow(arguments: argparse.Namespace) -> int:
    keys = _keys(arguments)
    read_public = import_extra("purgatory.service.auth.key_store", "service").read_public
    text = arguments.key or str(keys.directory / f"{arguments.name}.key")
    public = read_public(text)
    fresh = keys.allow(arguments.name, public, _access(arguments))
    words = "is let in" if fresh else "was let in already"
    print(f"{arguments.name} {words}, {_shown(keys.allowed()[public])}")
    return 0


def _access(arguments: argparse.Namespace) -> Access | None:
    """Return the access that the options give; None if there are none of these."""
    label, names = arguments.name, arguments.names
    if names is None and arguments.rights is None:
        return None
    module = import_extra("purgatory.service.auth.access", "service")
    rights = module.RIGHTS if arguments.rights is None else arguments.rights.split(",")
    access: Access = module.Access(label, rights=rights)
    if names is None:
        names = label if access.own_only else "*"
    return access if names == "*" else module.Access(label, names.split(","), rights)


def _shown(access: Access) -> str:
    names = " or ".join(access.names) or "any name"
    return f"as {names}: {', '.join(access.rights) if access.own_only else 'may do all'}"


def _revoke(arguments: argparse.Namespace) -> int:
    found = _keys(arguments).revoke(arguments.name)
    print(f"{arguments.name} is let in no longer" if found else f"{arguments.name} was not let in")
    return 0 if found else 1


def _list(arguments: argparse.Namespace) -> int:
    keys = _keys(arguments)
    pairs = ", ".join(keys.names()) or "none"
    print(f"key pairs in {keys.directory}: {pairs}")
    allowed = keys.allowed()
    print("clients let in:" if allowed else "clients let in: none")
    for public, access in sorted(allowed.items(), key=lambda entry: entry[1].label):
        print(f"  {public.decode()}  {access.label}, {_shown(access)}")
    return 0
