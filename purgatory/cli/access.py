"""`purgatory keys` and `purgatory tokens`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from purgatory.cli.options import (
    SubParsers,
    add_command,
    add_group,
    import_extra,
    optional_path,
)
from purgatory.cli.output import say
from purgatory.service.config import Config

if TYPE_CHECKING:
    from purgatory.service.auth.access import Access
    from purgatory.service.auth.key_store import KeyStore
    from purgatory.service.auth.token_store import TokenStore

_KEYS: Final = """\
CURVE keys for a server that others than this machine can reach. The server has a key pair named
"server"; each client has one of its own, and the server lets in the clients on its list. A running
server reads the list again on SIGHUP."""

_KEYS_EXAMPLES: Final = """\
examples, on the server:
  purgatory keys new server          its pair; server.key is for the clients
  purgatory keys new shop            a pair for a client: hand on shop.key_secret
  purgatory keys allow shop          allow that client
  purgatory keys allow till KEY      allow one that made its pair itself (KEY: the key, or a file)
  purgatory keys allow till -- -KEY  another tool has made a key that begins with "-"
  purgatory keys allow billing --rights submit,read
                                     it may do no more than that, and only under its own name
  purgatory keys allow worker --name worker-1,worker-2 --rights work
  purgatory keys list"""

_TOKENS: Final = """\
Tokens for programs that use `purgatory gateway`. A token is for the operations of one client, NAME;
a client may have several, so that one can be replaced. Only hashes are kept. A running gateway
knows at once what was made and revoked."""

_TOKENS_EXAMPLES: Final = """\
examples, on the gateway's machine:
  purgatory tokens new shop                       prints a token: it is not shown again
  purgatory tokens new till --rights submit,read  it may do no more than that
  purgatory tokens list
  purgatory tokens revoke shop                    all of a client, or one by its id"""

# Of a token made without `--rights`: all but other clients' operations.
_TOKEN_RIGHTS: Final = "submit,complete,read,work"


def add_parsers(subparsers: SubParsers) -> None:
    """Add `purgatory keys` and `purgatory tokens`."""
    _add_keys(subparsers)
    _add_tokens(subparsers)


def _add_keys(subparsers: SubParsers) -> None:
    summary = "make keys, and choose which clients may connect"
    commands = add_group(subparsers, "keys", summary, _KEYS, _KEYS_EXAMPLES)
    new = add_command(commands, "new", _new_key, "make a key pair")
    new.add_argument("name", metavar="NAME", help='of the client; "server" for the server itself')
    summary = "allow a client to connect; without options its limits stay"
    allow = add_command(commands, "allow", _allow, summary)
    allow.add_argument("name", metavar="NAME", help="its name in this directory")
    allow.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help="its public key, or a file with the key (default: NAME.key in the directory)",
    )
    allow.add_argument(
        "--name",
        dest="names",
        metavar="NAME,...",
        help="client names it may use; '*' for any "
        "(default: any; its own if --rights lack administer)",
    )
    allow.add_argument(
        "--rights",
        metavar="RIGHT,...",
        help="of submit, complete, read, work and administer (default: all)",
    )
    revoke = add_command(
        commands, "revoke", _revoke_key, "take a client off the list; send the server SIGHUP"
    )
    revoke.add_argument("name", metavar="NAME", help="of the client, as keys list shows it")
    shown = add_command(commands, "list", _list_keys, "show the keys and the allowed clients")
    add_directory_options(new, allow, revoke, shown)


def _add_tokens(subparsers: SubParsers) -> None:
    summary = "make the tokens of a gateway, and revoke them"
    commands = add_group(subparsers, "tokens", summary, _TOKENS, _TOKENS_EXAMPLES)
    new = add_command(commands, "new", _new_token, "make a token")
    new.add_argument("name", metavar="NAME", help="client whose operations it is for")
    new.add_argument(
        "--rights",
        metavar="RIGHT,...",
        help=f"of submit, complete, read, work and administer (default: {_TOKEN_RIGHTS})",
        default=_TOKEN_RIGHTS,
    )
    summary = "revoke a token, or all tokens of a client"
    revoke = add_command(commands, "revoke", _revoke_token, summary)
    revoke.add_argument(
        "name", metavar="NAME|ID", help="of a client, for all of its tokens, or of a token"
    )
    shown = add_command(commands, "list", _list_tokens, "list the tokens")
    add_directory_options(new, revoke, shown)


def add_directory_options(*parsers: argparse.ArgumentParser) -> None:
    """Add the options that name the directory of keys and tokens."""
    for parser in parsers:
        parser.add_argument("--config", metavar="FILE", help="TOML file of the server's settings")
        parser.add_argument("--data-dir", metavar="DIR", help="of the server (purgatory-data)")
        parser.add_argument("--keys-dir", metavar="DIR", help="of keys and tokens (DIR/keys)")


def _directory(arguments: argparse.Namespace) -> Path:
    flags = {"data_dir": arguments.data_dir, "keys_dir": arguments.keys_dir}
    return Config.load(flags, file=optional_path(arguments.config)).keys_dir


def _key_store(arguments: argparse.Namespace) -> KeyStore:
    module = import_extra("purgatory.service.auth.key_store", "service")
    keys: KeyStore = module.KeyStore(_directory(arguments))
    return keys


def token_store(arguments: argparse.Namespace) -> TokenStore:
    """Return the tokens in the directory of keys."""
    module = import_extra("purgatory.service.auth.token_store", "service")
    store: TokenStore = module.TokenStore(_directory(arguments))
    return store


def _new_key(arguments: argparse.Namespace) -> int:
    keys = _key_store(arguments)
    pair = keys.new(arguments.name)
    say(f"{keys.directory / arguments.name}.key_secret: keep it secret")
    say(f"{keys.directory / arguments.name}.key: {pair.public.decode()}")
    return 0


def _allow(arguments: argparse.Namespace) -> int:
    keys = _key_store(arguments)
    read_public = import_extra("purgatory.service.auth.key_store", "service").read_public
    public = read_public(arguments.key or str(keys.directory / f"{arguments.name}.key"))
    fresh = keys.allow(arguments.name, public, _access(arguments))
    words = "is allowed" if fresh else "was allowed already"
    say(f"{arguments.name} {words}, {_shown(keys.allowed()[public])}")
    return 0


def _access(arguments: argparse.Namespace) -> Access | None:
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


def _revoke_key(arguments: argparse.Namespace) -> int:
    found = _key_store(arguments).revoke(arguments.name)
    say(f"{arguments.name} is no longer allowed" if found else f"{arguments.name} was not allowed")
    return 0 if found else 1


def _list_keys(arguments: argparse.Namespace) -> int:
    keys = _key_store(arguments)
    pairs = ", ".join(keys.names()) or "none"
    say(f"key pairs in {keys.directory}: {pairs}")
    allowed = keys.allowed()
    say("allowed clients:" if allowed else "allowed clients: none")
    for public, access in sorted(allowed.items(), key=lambda entry: entry[1].label):
        say(f"  {public.decode()}  {access.label}, {_shown(access)}")
    return 0


def _new_token(arguments: argparse.Namespace) -> int:
    module = import_extra("purgatory.service.auth.access", "service")
    access: Access = module.Access(arguments.name, rights=arguments.rights.split(","))
    print(token_store(arguments).new(access))
    return 0


def _revoke_token(arguments: argparse.Namespace) -> int:
    count = token_store(arguments).revoke(arguments.name)
    say(f"{arguments.name}: {count} revoked" if count else f"{arguments.name}: no such token")
    return 0 if count else 1


def _list_tokens(arguments: argparse.Namespace) -> int:
    tokens = token_store(arguments).all()
    say("tokens:" if tokens else "tokens: none")
    for token in tokens:
        say(f"  {token.id}  {token.access.label}: {', '.join(token.access.rights)}")
    return 0
