"""The model of pipe and mailbox, checked by spin; and that spin finds each of its slips."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[3] / "docs" / "model" / "ypipe_mailbox.pml"
HANG_TIMEOUT_S = 100  # seconds: a check takes less than ten
# What a machine without spin may skip, CI may not.
pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")) and not os.environ.get("CI"),
    reason="spin and gcc are needed to check the model (on Debian: apt-get install spin gcc)",
)
SLIPS = {
    1: "flush without the lock",
    2: "flush forgets that the reader slept",
    3: "check_read unlocks before it says that it sleeps",
    4: "send reads the sleep before it appends",
    5: "send says that it signalled, and is interrupted",
    6: "recv numbers the sleep before it consumes the signal",
    7: "recv rechecks before it numbers the sleep",
    8: "recv does not recheck",
}

# As the page writes them.
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def errors(directory, broken=0):
    """How many errors pan finds, having seen all states if there are none, and how many states."""

    def run(*command):
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=HANG_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    run("spin", f"-DBROKEN={broken}", "-a", str(MODEL))
    # A slip is found before a better compiler has paid.
    run("gcc", "-O0" if broken else "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
    report = run("./pan")
    assert "max search depth too small" not in report, report
    found = re.search(r"errors: (\d+)", report)
    assert found, report
    assert broken or report.count("(0 of ") == report.count("unreached in proctype") + 1, report
    stored = re.search(r"(\d+) states, stored", report)
    assert stored, report
    return int(found[1]), int(stored[1])


def test_model(tmp_path):
    """No message and no command is lost, no wake-up either, in any of the model's states."""
    found, states = errors(tmp_path)
    assert found == 0
    page = MODEL.with_name("README.md").read_text(encoding="utf-8")
    assert f"about {NUMBERS[round(states / 1_000_000)]} million states" in page
    assert f"in {NUMBERS[len(SLIPS)]} ways" in page


@pytest.mark.parametrize("broken", SLIPS, ids=SLIPS.get)
def test_slips_are_found(tmp_path, broken):
    """With one step of the model done wrongly, spin finds an order in which that matters."""
    assert errors(tmp_path, broken)[0] == 1
