"""The OpenAPI document: all that it allows is answered as it says."""

import json
import os
import subprocess
import sys

import pytest

from tests.testing.purgatory_harness import HANG

pytest.importorskip("schemathesis", reason="pip install schemathesis")

# JSON Schema cannot say that a text is a duration, or that `need` is at most the number of keys;
# any text is a key or an id; in queries all is text; what is cancelled is known for a while.
UNSAID = "positive_data_acceptance,negative_data_rejection,use_after_free"
# Not set: one request for each kind of value that the document has, and no random ones.
EXAMPLES = os.environ.get("PURGATORY_EXAMPLES", "")


def test_it_lists_all_routes(shop):
    """With their types and their problems."""
    document = shop.get("/v1/openapi.json").json()
    assert sorted(document["paths"]) == [
        "/v1/access",
        "/v1/batch/jobs/cancel",
        "/v1/batch/jobs/retry",
        "/v1/batch/operations",
        "/v1/counts",
        "/v1/counts/stream",
        "/v1/jobs",
        "/v1/jobs/{job_id}",
        "/v1/jobs/{job_id}/retry",
        "/v1/jobs/{job_id}/run",
        "/v1/keys/{key}",
        "/v1/leases",
        "/v1/leases/acknowledge",
        "/v1/leases/keep",
        "/v1/leases/return",
        "/v1/limits",
        "/v1/operations",
        "/v1/operations/{op_id}",
        "/v1/outcomes",
        "/v1/outcomes/acknowledge",
        "/v1/outcomes/stream",
        "/v1/repeats",
        "/v1/repeats/{repeat}",
        "/v1/repeats/{repeat}/pause",
        "/v1/repeats/{repeat}/resume",
        "/v1/repeats/{repeat}/run",
    ]
    look = document["paths"]["/v1/operations/{op_id}"]["get"]
    assert look["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/OperationReport"
    }
    assert look["security"] == [{"token": []}]
    assert "404" in look["responses"]


def arrays_of(schema):
    """Yield all schemas of arrays."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            yield schema
        for each in schema.values():
            yield from arrays_of(each)


def test_each_array_has_items(shop):
    """Programs that make a client of the document leave out a route without."""
    arrays = list(arrays_of(shop.get("/v1/openapi.json").json()))
    assert len(arrays) > 10
    assert [each for each in arrays if "items" not in each] == []


@pytest.mark.timeout(HANG * 11)  # thousands of requests
def test_what_schemathesis_sends(start, tmp_path):
    """No answer of 500, and none that the document does not have."""
    with start(max_wait=0.01).program() as shop:
        check(shop, tmp_path)


def check(shop, tmp_path):
    """Run schemathesis."""
    document = shop.get("/v1/openapi.json").json()
    del document["paths"]["/v1/outcomes/stream"]  # does not end
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", path, "--no-color"),
        *("--url", shop.base_url, "--header", f"Authorization: {shop.headers['Authorization']}"),
        *("--exclude-checks", UNSAID, "--generation-database", "none"),
        *("--suppress-health-check", "all"),  # of a busy machine
        *(("--max-examples", EXAMPLES) if EXAMPLES else ("--phases", "coverage")),
    ]
    done = subprocess.run(
        [str(each) for each in command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG * 10,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
