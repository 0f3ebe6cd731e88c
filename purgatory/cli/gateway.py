"""`purgatory gateway`: HTTP and JSON for other languages."""

import argparse
from typing import Final

from purgatory.cli.access import add_directory_options, token_store
from purgatory.cli.connection import add_connection_options, check_connection, connection
from purgatory.cli.options import (
    DURATION,
    SubParsers,
    add_command,
    add_log_format,
    import_extra,
    optional_path,
)
from purgatory.cli.process import configure_logging, notify, tell
from purgatory.service.config import host_names

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


def add_parsers(subparsers: SubParsers) -> None:
    """Add the command."""
    summary = "serve HTTP and JSON for programs in other languages"
    parser = add_command(subparsers, "gateway", _run, summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument(
        "--bind", metavar="HOST:PORT", default=_BIND, help=f"where to listen (default: {_BIND})"
    )
    parser.add_argument("--tls-certificate", metavar="FILE", help="in PEM; for HTTPS")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, in PEM")
    parser.add_argument(
        "--hosts", metavar="NAME,...", default="", help="further names of this machine"
    )
    parser.add_argument(
        "--keep-alive",
        default=75.0,
        help="how long an idle connection stays open (75); a proxy must close its own earlier",
        **DURATION,
    )
    add_log_format(parser)
    add_directory_options(parser)
    add_connection_options(parser, named=False)  # tokens name the clients


def _run(arguments: argparse.Namespace) -> int:
    module = import_extra("purgatory.service.gateway.server", "gateway")
    configure_logging(arguments.log_format, verbose=False)
    address, options = connection(arguments)
    check_connection(address, options)  # else each request would report it
    gateway = module.Gateway(
        arguments.bind,
        tokens=token_store(arguments),
        connector=module.Connector(address, options),
        tls=module.TLSFiles(
            optional_path(arguments.tls_certificate), optional_path(arguments.tls_key)
        ),
        hosts=host_names(arguments.hosts, "--hosts"),
        keep_alive=arguments.keep_alive,
    )

    def announce() -> None:
        tell(f"serving {gateway.url}")
        notify("READY=1")

    gateway.run(announce)
    return 0
