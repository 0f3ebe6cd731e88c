"""The command line: `purgatory`, or `python -m purgatory`.

The main thread runs all code here, unless a module says otherwise.
"""

import sys
from collections.abc import Sequence

from purgatory.cli.process import INTERRUPTED, heed_sigterm


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; see `purgatory.cli.entry_point`."""
    heed_sigterm()
    try:
        from purgatory.cli.entry_point import main as run  # noqa: PLC0415  # takes a while
    except KeyboardInterrupt:
        print("purgatory: interrupted", file=sys.stderr)
        return INTERRUPTED
    return run(argv)


__all__ = ["main"]
