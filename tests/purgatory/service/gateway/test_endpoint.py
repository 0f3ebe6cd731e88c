"""What an endpoint takes: names in paths, bodies, their size."""

import gzip

import pytest


@pytest.mark.parametrize(
    "name", ["a/b", "a//b", "/a", "a/", "..", "a%2Fb", "ä €", "batch", "?x=1", "a b"]
)
def test_any_text_is_a_name(shop, name):
    """Slashes and dots are part of an id or key if they are encoded; so is all else."""
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    shop.post("/v1/operations", json={"keys": [name], "op_id": name})
    assert shop.get(f"/v1/operations/{encoded}").json()["op_id"] == name
    assert shop.post(f"/v1/keys/{encoded}", json={}).json() == {"count": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "the body lacks the field `keys`"),
        ({"keys": []}, "keys: expected an array of length 1 or more"),
        ({"keys": [""]}, "keys[0]: expected a string of length 1 or more"),
        ({"keys": ["k"], "timeout": -1}, "timeout: expected a number of 0 or more"),
        ({"keys": ["k"], "timeout": "soon"}, "timeout: 'soon' is not a valid duration"),
        ({"keys": ["k"], "timeout": 1e9}, "expected"),
        ({"keys": ["k"], "need": 2}, "need is 2"),
        ({"keys": ["k"], "op_id": ""}, "op_id"),
        (
            {"keys": ["k"], "kees": 1},
            "`kees`; expected keys, timeout, need, kind, op_id, unique_for, payload",
        ),
        ({"keys": ["k"], "need": "1"}, "need is a string; expected a whole number"),
        ({"keys": ["k"], "need": True}, "need is true or false; expected a whole number"),
        ({"keys": ["k"], "timeout": True}, "timeout is true or false; expected a number, a string"),
        ({"keys": ["k"], "payload": 2**63 + 1}, None),
        ([], "the body is an array; expected an object"),
    ],
)
def test_bad_requests(shop, body, reason):
    """Each says what is wrong, and nothing is submitted."""
    answer = shop.post("/v1/operations", json=body)
    if reason is None:  # fits
        assert answer.status_code == 201
        return
    assert (answer.status_code, answer.json()["code"]) in [(400, "malformed"), (400, "too-long")]
    assert reason in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("operations?stat=pending", "query has 'stat'; expected state, kind, key, client, order"),
        ("operations?with_jobs=1", "'with_jobs'"),
        ("jobs?tags=a", "'tags'; expected state, kind, tag, client, order, limit, cursor"),
        ("jobs?key=a", "'key'"),
        ("jobs?state=null", "state is 'null'; expected scheduled, ready, running"),
        ("jobs?state=dead&state=ready", "query has 'state' more than once"),
        ("jobs?limit=x", "limit is a string; expected a whole number"),
        ("jobs?limit=501", "limit: expected a whole number of 500 or less"),
        ("counts?kinds=a", "'kinds'; expected state, kind, tag, client"),
        ("counts/stream?kind=a", "'kind'; expected no parameter"),
        ("limits?kind=a", "'kind'; expected no parameter"),
        ("outcomes/stream?last_event_id=1", "'last_event_id'; expected after"),
        ("operations/x?limit=1", "'limit'; expected no parameter"),
        ("operations?kind=%ff", "query has b'kind=%ff'; expected UTF-8"),
        ("operations/%ff", "path has b'%ff'; expected UTF-8"),
    ],
)
def test_bad_queries(shop, path, reason):
    """A misspelt or repeated parameter, or a bad value, is refused: else it would list all."""
    answer = shop.get(f"/v1/{path}")
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert reason in answer.json()["message"]


def test_a_bad_header(shop):
    """The reason has the header's name."""
    answer = shop.get("/v1/outcomes/stream", headers={"Last-Event-ID": "1" * 21})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("Last-Event-ID: expected a string of length 20")


def test_texts_that_look_like_nothing(shop):
    """In a query "null" is a kind as any."""
    shop.post("/v1/jobs", json={"delay": 60, "kind": "null", "job_id": "a"})
    shop.post("/v1/jobs", json={"delay": 60, "job_id": "b"})
    jobs = shop.get("/v1/jobs?kind=null&limit=5").json()["jobs"]
    assert [job["job_id"] for job in jobs] == ["a"]


def test_a_body_where_none_is_expected(shop):
    """Its fields would be ignored: it is refused, but for an empty object."""
    shop.post("/v1/jobs", json={"delay": 60, "job_id": "a"})
    answer = shop.post("/v1/jobs/a/run", json={"delay": 5})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "`delay`; expected no field" in answer.json()["message"]
    assert shop.post("/v1/jobs/a/run", content=b"now").status_code == 400
    assert shop.get("/v1/jobs/a").json()["state"] == "scheduled"
    assert shop.post("/v1/jobs/a/run", json={}).json() == {"done": True}


def test_a_body_that_is_compressed(shop):
    """It is refused by the name of its encoding."""
    body, headers = gzip.compress(b'{"keys": ["k"]}'), {"Content-Encoding": "gzip"}
    answer = shop.post("/v1/operations", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert answer.json()["message"] == "Content-Encoding is 'gzip'; expected plain JSON"


def test_the_size_of_a_body(shop):
    """More than 1 MiB is refused, whether its length is told before or not."""
    for body in (b" " * (1 << 20) + b"{}", (b" " * (1 << 16) for _ in range(17))):
        answer = shop.post("/v1/operations", content=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert answer.json()["message"] == "the body has more than 1,048,576 bytes"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"keys": ["k"]} x'])
def test_what_is_no_json(shop, body):
    """It is refused as a bad value, however deep it is."""
    answer = shop.post("/v1/operations", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    expected = "is an array" if body[:1] == b"[" else "is no JSON: " if body else "is empty; "
    assert answer.json()["message"].startswith(f"the body {expected}")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"keys": ["\\ud800"]}', "a text has half a surrogate pair"),
        (b'{"keys": ["k"], "payload": "\\uDBFF"}', "a text has half a surrogate pair"),
        (b'{"keys": ["\\ud800', "Input data was truncated"),
        (b'{"keys": ["k"', "Input data was truncated"),
    ],
)
def test_half_a_surrogate_pair(shop, body, reason):
    """It is no cut text: the reason says what is wrong."""
    answer = shop.post("/v1/operations", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert answer.json()["message"] == f"the body is no JSON: {reason}"
    items = b'{"operations": [' + body + b"]}"
    assert reason in shop.post("/v1/batch/operations", content=items).text


def test_an_unknown_path_or_method(shop):
    """The answer says where the paths are, and which methods there are."""
    assert shop.get("/v1/job").json()["message"] == "the path is not known; see /v1/openapi.json"
    expected = "method is DELETE; expected GET, HEAD, OPTIONS, POST"
    assert shop.delete("/v1/jobs").json()["message"] == expected
