"""The routes of a gateway: unknown ones, other methods, pages of other sites."""

import socket

import pytest

from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/v1/keys", "/v2/operations"])
def test_unknown_paths(shop, path):
    """Each is answered with a problem, whatever the method, without a token as well."""
    for method in ("GET", "POST", "OPTIONS"):
        answer = shop.request(method, path, headers={"Authorization": ""})
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/v1/openapi.json", "GET, HEAD, OPTIONS"),
        ("/v1/operations", "GET, HEAD, OPTIONS, POST"),
        ("/v1/operations/", "GET, HEAD, OPTIONS, POST"),
        ("/v1/limits", "GET, HEAD, OPTIONS, PATCH"),
        ("/v1/batch/jobs/cancel", "OPTIONS, POST"),
        ("/console", "GET, HEAD, OPTIONS"),
        ("/console/console.js", "GET, HEAD, OPTIONS"),
        ("/v1/operations/a%2Fb", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/v1/keys/k", "OPTIONS, POST"),
        ("/v1/outcomes", "GET, HEAD, OPTIONS"),
    ],
)
def test_other_methods(shop, path, methods):
    """A refusal, as the answer to OPTIONS, names all methods of a path."""
    answer = shop.put(path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method")
    assert answer.headers["Allow"] == methods
    answer = shop.options(path)
    assert (answer.status_code, answer.headers["Allow"]) == (204, methods)


def test_hosts_and_origins(start):
    """A page of another site can neither ask directly nor by a name that it made point here."""
    gateway = start(hosts=["purgatory.example"])
    with gateway.program() as program:
        answer = program.get("/v1/outcomes", headers={"Host": "evil.example"})
        assert (answer.status_code, "name it in --hosts" in answer.text) == (421, True)
        assert program.get("/v1/outcomes", headers={"Host": "purgatory.example"}).is_success
        assert program.get("/v1/outcomes", headers={"Origin": "http://evil.example"}).json()[
            "code"
        ] == ("origin")
        assert program.get("/v1/outcomes", headers={"Origin": gateway.url}).is_success


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/v1", "/v1/outcomes", "/v1/operations/a"]
)
def test_head(shop, path):
    """It is answered as GET is, without the content."""
    shop.post("/v1/operations", json={"keys": ["k"], "op_id": "a"})
    got, head = shop.get(path), shop.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert shop.head("/v1/operations/none").status_code == 404
    assert shop.head("/v1/batch/operations").status_code == 405


def test_head_of_a_stream(shop):
    """It ends at once."""
    answer = shop.head("/v1/outcomes/stream")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_program_that_hangs_up_within_a_body(gateway, shop, caplog):
    """It is no failure of the gateway: nothing is logged, and no answer is counted."""
    host, port = gateway.url.removeprefix("http://").split(":")
    head = f"POST /v1/operations HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n"
    head += f"Authorization: {shop.headers['Authorization']}\r\n\r\n"

    def is_open(count):
        return f"purgatory_gateway_open_requests {count}.0" in shop.get("/metrics").text

    with socket.create_connection((host, int(port)), HANG) as peer:
        peer.sendall(head.encode() + b"{")
        eventually(lambda: is_open(2))  # the other one asks
    eventually(lambda: is_open(1))
    assert 'method="POST"' not in shop.get("/metrics").text
    assert not caplog.records
