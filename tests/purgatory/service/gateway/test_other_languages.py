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
    for job_id, fail in (("a", 0), ("b", 1)):
        job = {"delay": 0, "kind": "mail", "job_id": job_id, "payload": {"to": "ada", "fail": fail}}
        curl("jobs", "-d", json.dumps(job))
    said = run("node", EXAMPLES / "gateway_worker.mjs", gateway.url, token_of(shop), 2)
    assert sorted(said.splitlines()) == [
        "attempt 1 at a: mail to ada",
        "attempt 2 at b: mail to ada",
    ]
    assert connect(server, name="shop").stats()["unacknowledged"] == 0
    assert curl("leases", "-d", '{"kinds": ["mail"], "wait": 0}') == {"jobs": []}


def test_node_follows_outcomes_and_schedules_jobs(gateway, shop):
    """curl submits waits; Node schedules a job for the one that expired, which curl is leased."""
    token, curl = token_of(shop), curl_for(gateway, shop)

    def submit(op_id, timeout):
        wait = {"op_id": op_id, "keys": [op_id], "timeout": timeout, "kind": "order"}
        curl("operations", "-d", json.dumps(wait | {"payload": {"to": "ä"}}))

    submit("paid", 60)
    curl("keys/paid", "-d", "{}")
    submit("late", 0.2)  # after the end of the other: the outcomes have an order
    assert run("node", EXAMPLES / "gateway_jobs.mjs", gateway.url, token, 2).splitlines() == [
        'order completed: {"to":"ä"}',
        'order expired: {"to":"ä"}',
    ]
    assert curl("outcomes") == {"outcomes": []}
    [job] = curl("leases", "-d", '{"kinds": ["mail"]}')["jobs"]
    assert (job["job_id"], job["payload"]) == ("remind:late", {"to": "ä"})
