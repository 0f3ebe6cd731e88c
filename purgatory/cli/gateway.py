"""`purgatory gateway`: HTTP and JSON for programs in other languages.

Called from the main thread. Nothing of the extra is imported before the command runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from purgatory.cli.access.directory import add_directory_options
from purgatory.cli.access.tokens import token_store
from purgatory.cli.connection import add_connection_options, check_connection, connection
from purgatory.cli.extras import import_extra
from purgatory.service.config import split_names

_BIND: Final = "127.0.0.1:7413"

_DESCRIPTION = """\
Serve the operations of a server over HTTP, as JSON. The gateway is a client of the server and a
process of its own, so that nothing that is sent to it can hold up the server. Requests have a token
(`purgatory tokens new NAME`). The OpenAPI document is at /v1/openapi.json."""

_EXAMPLES = """\
examples:
  purgatory gateway                      at http://127.0.0.1:7413
  purgatory gateway --bind 0.0.0.0:443 --tls-certificate cert.pem --tls-key key.pem

exit codes: 0 ended by a signal, 2 it could not start"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "gateway",
        help="serve HTTP and JSON for programs in other languages",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bind", metavar="HOST:PORT", default=_BIND, help=f"where to listen (default: {_BIND})"
    )
    parser.add_argument("--tls-certificate", metavar="FILE", help="in PEM; for HTTPS")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, in PEM")
    parser.add_argument(
        "--hosts", metavar="NAME,...", default="", help="further names of this machine"
    )
    add_directory_options(parser)
    add_connection_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = import_extra("purgatory.service.gateway.server", "gateway")
    address, options = connection(arguments)
    check_connection(address, options)  # or each request would tell it
    gateway = module.Gateway(
        arguments.bind,
        tokens=token_store(arguments),
        connector=module.Connector(address, options),
        tls=module.TLSFiles(_path(arguments.tls_certificate), _path(arguments.tls_key)),
        hosts=split_names(arguments.hosts),
    )
    gateway.run(lambda: print(f"serving {gateway.url}", flush=True))
    return 0


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
