"""The directory of keys and tokens, as the options of a command name it. From the main thread."""

from __future__ import annotations

import argparse
from pathlib import Path

from purgatory.service.config import Config


def add_directory_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the directory."""
    parser.add_argument("--data-dir", metavar="DIR", help="of the server (purgatory-data)")
    parser.add_argument("--keys-dir", metavar="DIR", help="of keys and tokens (DIR/keys)")


def keys_directory(arguments: argparse.Namespace) -> Path:
    """Return the directory. Raises ConfigError."""
    flags = {"data_dir": arguments.data_dir, "keys_dir": arguments.keys_dir}
    return Config.load(flags).keys_dir
