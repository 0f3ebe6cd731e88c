"""Run the command `purgatory`, as `python -m purgatory`."""

import sys

from purgatory.cli import main

if __name__ == "__main__":
    sys.exit(main())
