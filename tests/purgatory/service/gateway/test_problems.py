"""What a gateway answers if a request is refused."""


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
