"""Programs that are not Python take part: curl, and examples/gateway_jobs.mjs with Node."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.testing.purgatory_harness import HANG

EXAMPLE = Path(__file__).parents[4] / "examples" / "gateway_jobs.mjs"
# What a machine without these may skip, CI may not.
pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("node")) and not os.environ.get("CI"),
    reason="curl and node are needed (on Debian: apt-get install curl nodejs)",
)


def run(*command):
    """Return what a program prints."""
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, timeout=HANG, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_job_from_curl_done_by_node_and_the_other_way_round(gateway, shop):
    """curl submits a job, Node does it and submits one itself, which curl reads."""
    token = shop.headers["Authorization"].removeprefix("Bearer ")

    def curl(path, *options):
        header = f"Authorization: Bearer {token}"
        return json.loads(run("curl", "-sS", "-H", header, *options, f"{gateway.url}/v1/{path}"))

    job = {"keys": ["never"], "timeout": 0.2, "kind": "mail", "payload": {"to": "ä", "then": 1}}
    submitted = curl("operations", "-d", json.dumps(job))
    assert run("node", EXAMPLE, gateway.url, token, 1) == 'mail: {"to":"ä","then":1}\n'
    outcomes = []
    while not outcomes:
        outcomes = curl("outcomes")["outcomes"]
    [outcome] = outcomes
    assert (outcome["kind"], outcome["payload"]) == ("thanks", {"of": submitted["op_id"]})
    assert curl("outcomes/acknowledge", "-d", f'{{"numbers": [{outcome["number"]}]}}') == {
        "count": 1
    }
