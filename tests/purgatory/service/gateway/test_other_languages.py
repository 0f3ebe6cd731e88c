"""Programs that are not Python take part: curl, and those for Node in examples/."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.testing.purgatory_harness import HANG

EXAMPLES = Path(__file__).parents[4] / "examples"
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


def token_of(program):
    return program.headers["Authorization"].removeprefix("Bearer ")


def curl_for(gateway, program):
    """Return a function that has curl ask the gateway, with the program's token."""
    header = f"Authorization: Bearer {token_of(program)}"

    def curl(path, *options):
        return json.loads(run("curl", "-sS", "-H", header, *options, f"{gateway.url}/v1/{path}"))

    return curl


def test_a_worker_in_node(gateway, shop, server, connect):
    """curl schedules jobs; Node takes them, tries one again that has failed, and ends them."""
    curl = curl_for(gateway, shop)
    for op_id, fail in (("a", 0), ("b", 1)):
        job = {"delay": 0, "kind": "mail", "op_id": op_id, "payload": {"to": "ada", "fail": fail}}
        curl("jobs", "-d", json.dumps(job))
    said = run("node", EXAMPLES / "gateway_worker.mjs", gateway.url, token_of(shop), 2)
    assert sorted(said.splitlines()) == [
        "attempt 1 at a: mail to ada",
        "attempt 2 at b: mail to ada",
    ]
    assert connect(server, name="shop").stats()["unacknowledged"] == 0
    assert curl("leases", "-d", '{"kinds": ["mail"], "wait": 0}') == {"jobs": []}


def test_a_job_from_curl_done_by_node_and_the_other_way_round(gateway, shop):
    """curl submits a job, Node does it and submits one itself, which curl reads."""
    token, curl = token_of(shop), curl_for(gateway, shop)
    job = {"keys": ["never"], "timeout": 0.2, "kind": "mail", "payload": {"to": "ä", "then": 1}}
    submitted = curl("operations", "-d", json.dumps(job))
    assert (
        run("node", EXAMPLES / "gateway_jobs.mjs", gateway.url, token, 1)
        == 'mail: {"to":"ä","then":1}\n'
    )
    outcomes = []
    while not outcomes:
        outcomes = curl("outcomes")["outcomes"]
    [outcome] = outcomes
    assert (outcome["kind"], outcome["payload"]) == ("thanks", {"of": submitted["op_id"]})
    assert curl("outcomes/acknowledge", "-d", f'{{"numbers": [{outcome["number"]}]}}') == {
        "count": 1
    }
