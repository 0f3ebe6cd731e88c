"""What a gateway answers if a request is refused."""

from starlette.requests import Request

from purgatory.service.errors import RequestFailed, StoreFailed
from purgatory.service.gateway.problems import answer_to


def test_what_the_server_refuses(serve, start):
    """Its refusals have a status and its code."""
    small = serve(memory=True, max_payload_bytes=10, max_pending_per_client=1)
    with start(small.address).program() as shop:
        answer = shop.post("/v1/operations", json={"keys": ["k"], "payload": "x" * 20})
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        shop.post("/v1/operations", json={"keys": ["k"]})
        answer = shop.post("/v1/operations", json={"keys": ["k"]})
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-pending")
        assert answer.headers["Retry-After"] == "1"


def test_what_fails_each_time_is_not_sent_again():
    """protocol.md: the client does not repeat a request that shows a fault of the server."""
    request = Request({"type": "http"})
    answers = [answer_to(request, error("why")) for error in (RequestFailed, StoreFailed)]
    assert [each.status_code for each in answers] == [500, 503]
    assert ["Retry-After" in each.headers for each in answers] == [False, True]
