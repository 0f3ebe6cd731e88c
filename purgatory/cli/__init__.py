"""The command line: `purgatory`, or `python -m purgatory`."""

from purgatory.cli.entry_point import main

__all__ = ["main"]
