"""Check how many of the public names have a type that a type checker knows.

Prints a line for each package, and fails if one is below the bound. See https://microsoft.github.io/pyright/#/typed-libraries.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LEAST = 0.95
PACKAGES = ("timingwheel", "mq", "purgatory")
ROOT = Path(__file__).parents[1]
# Pyright asks the first `python` there is for other packages, and does not see an editable install.
ENVIRONMENT = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYTHONPATH": str(ROOT),
}


def completeness(package: str) -> dict[str, Any]:
    """Return pyright's report on a package; other packages' types do not count."""
    command = ["basedpyright", "--verifytypes", package, "--ignoreexternal", "--outputjson"]
    run = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        check=False,
        env=os.environ | ENVIRONMENT,
    )
    report: dict[str, Any] = json.loads(run.stdout)["typeCompleteness"]
    return report


def main() -> int:
    """Print the scores; returns the exit status."""
    worst = 1.0
    for package in PACKAGES:
        score = completeness(package)["completenessScore"]
        print(f"{package}: {score:.1%} of the public names have a known type")
        worst = min(worst, score)
    if worst < LEAST:
        print(
            f"expected at least {LEAST:.0%}; basedpyright --verifytypes PACKAGE says which lack one"
        )
    return worst < LEAST


if __name__ == "__main__":
    sys.exit(main())
