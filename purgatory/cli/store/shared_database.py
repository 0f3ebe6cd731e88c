"""How the commands of `purgatory store` find the database. Called from the main thread."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from purgatory.cli.options import import_extra, optional_path
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.store.lease import LeaseRow


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the database and the partition."""
    parser.add_argument("--store", metavar="URL", help="of the database (PURGATORY_STORE)")
    parser.add_argument("--partition", metavar="NAME", help="a part of it (PURGATORY_PARTITION)")
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings")


def store_config(arguments: argparse.Namespace) -> Config:
    """Return the settings with the database. Raises ConfigError."""
    names = {"store": arguments.store, "partition": arguments.partition}
    config = Config.load(names, file=optional_path(arguments.config))
    if not config.store:
        raise ConfigError("no store is named; expected --store postgresql://host/database")
    return config


@contextlib.contextmanager
def lease_row(config: Config) -> Iterator[LeaseRow]:
    """Open the row of the lease, as a program that never becomes its holder."""
    opening = import_extra("purgatory.service.store.opening", "service")
    row: LeaseRow = opening.open_lease_row(config.store, config.partition, "", "")
    try:
        yield row
    finally:
        row.close()


def without_password(url: str) -> str:
    """Return a URL that may be shown."""
    shown = re.sub(r"//([^:@/?]*):[^@/?]*@", r"//\1@", url)
    return re.sub(r"([?&])password=[^&]*&?", r"\1", shown).rstrip("?&")
