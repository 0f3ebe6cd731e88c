"""The command line: `purgatory`, or `python -m purgatory`.

The main thread runs all code here, unless a module says otherwise.
"""

from collections.abc import Sequence

from purgatory.cli.process import heed_sigterm


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; see `purgatory.cli.entry_point`."""
    heed_sigterm()
    from purgatory.cli.entry_point import main as run  # noqa: PLC0415  # takes a while

    return run(argv)


__all__ = ["main"]
