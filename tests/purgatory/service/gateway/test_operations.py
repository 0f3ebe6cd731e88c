"""Operations over HTTP: the same as over ZeroMQ, as JSON."""

import pytest

from purgatory.service import Client
from purgatory.service.gateway.callers import Connector
from tests.testing.purgatory_harness import HANG, free_port


def test_submit_and_complete(shop):
    """An operation waits, is completed with a value, and tells that."""
    answer = shop.post(
        "/v1/operations", json={"keys": ["order:17"], "op_id": "a", "payload": {"n": [1, None]}}
    )
    assert (answer.status_code, answer.json()) == (201, {"op_id": "a", "state": "pending"})
    found = shop.get("/v1/operations/a").json()
    assert (found["state"], found["client"], found["keys"]) == ("pending", "shop", ["order:17"])
    assert found["payload"] == {"n": [1, None]}
    assert shop.post("/v1/keys/order:17", json={"value": {"paid": 1.5}}).json() == {"count": 1}
    found = shop.get("/v1/operations/a").json()
    assert (found["state"], found["by_key"]) == ("completed", "order:17")
    assert found["result"] == {"paid": 1.5}


def test_a_request_may_be_sent_again(shop):
    """With the same id nothing is done twice."""
    wanted = {"keys": ["k"], "op_id": "a"}
    assert shop.post("/v1/operations", json=wanted).json()["state"] == "pending"
    assert shop.post("/v1/operations", json=wanted).json()["state"] == "pending"
    assert shop.post("/v1/keys/k", json={}).json() == {"count": 1}
    assert shop.post("/v1/operations", json=wanted).json()["state"] == "completed"


def test_an_id_is_free_after_its_period(shop):
    """With `unique_for` 0 that is the acknowledgement of the outcome."""
    wanted = {"keys": ["k"], "op_id": "a", "unique_for": "0s"}
    for _ in range(2):
        assert shop.post("/v1/operations", json=wanted).json()["state"] == "pending"
        assert shop.post("/v1/keys/k", json={}).json() == {"count": 1}
        [outcome] = shop.get("/v1/outcomes").json()["outcomes"]
        shop.post("/v1/outcomes/acknowledge", json={"numbers": [outcome["number"]]})


def test_extend_and_cancel(shop):
    """Both tell whether they did something; what is not known is 404."""
    shop.post("/v1/operations", json={"keys": ["k"], "op_id": "a", "timeout": "30s"})
    before = shop.get("/v1/operations/a").json()["deadline_ms"]
    assert shop.patch("/v1/operations/a", json={"timeout": "PT1H"}).json() == {"done": True}
    assert shop.get("/v1/operations/a").json()["deadline_ms"] > before + 3_000_000
    assert shop.delete("/v1/operations/a").json() == {"done": True}
    assert shop.delete("/v1/operations/a").json() == {"done": False}
    assert shop.patch("/v1/operations/a", json={"timeout": 1}).json() == {"done": False}
    for answer in (
        shop.get("/v1/operations/b"),
        shop.delete("/v1/operations/b"),
        shop.patch("/v1/operations/b", json={"timeout": 1}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown")


def test_batch(shop):
    """Each operation is submitted or refused by itself, in order."""
    wanted = [{"keys": ["a"], "op_id": "1"}, {"keys": ["a"], "need": 2}, {"keys": ["b"]}]
    results = shop.post("/v1/batch/operations", json={"operations": wanted}).json()["results"]
    assert results[0] == {"receipt": {"op_id": "1", "state": "pending"}, "problem": None}
    assert results[1]["problem"]["code"] == "malformed"
    assert "need is 2" in results[1]["problem"]["message"]
    assert results[2]["receipt"]["state"] == "pending"


def test_keys_fail(shop):
    """An error comes alone, and ends the operations as failed."""
    shop.post("/v1/operations", json={"keys": ["k"], "op_id": "a"})
    answer = shop.post("/v1/keys/k", json={"error": {"type": "NoMoney"}, "limit": 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    error = {"type": "NoMoney", "message": "none left"}
    assert shop.post("/v1/keys/k", json={"error": error}).json() == {"count": 1}
    found = shop.get("/v1/operations/a").json()
    assert (found["state"], found["result"]) == ("failed", ["NoMoney", "none left"])


def test_limit_and_hold(shop):
    """As in `Client.complete`."""
    for op_id in "abc":
        shop.post("/v1/operations", json={"keys": ["k"], "op_id": op_id})
    assert shop.post("/v1/keys/k", json={"limit": 2}).json() == {"count": 2}
    assert shop.get("/v1/operations/c").json()["state"] == "pending"
    shop.post("/v1/keys/early", json={"value": 1, "hold": "1m"})
    assert shop.post("/v1/operations", json={"keys": ["early"], "op_id": "d"}).status_code == 201
    assert shop.get("/v1/operations/d").json()["result"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"keys": []},
        {"keys": "k"},
        {"keys": ["k"], "need": 0},
        {"keys": ["k"], "need": 5},
        {"keys": ["k"], "timeout": -1},
        {"keys": ["k"], "timeout": "soon"},
        {"keys": ["k"], "colour": "red"},
        {},
        [],
        5,
        None,
        "text",
    ],
)
def test_a_bad_item_of_a_batch(shop, bad):
    """It is refused by itself, and says why; those beside it are submitted."""
    items = [{"keys": ["k"], "op_id": "a"}, bad, {"keys": ["k"], "op_id": "b"}]
    answer = shop.post("/v1/batch/operations", json={"operations": items})
    assert answer.status_code == 200
    first, refused, last = answer.json()["results"]
    assert (first["receipt"]["op_id"], last["receipt"]["op_id"]) == ("a", "b")
    assert (refused["receipt"], refused["problem"]["code"]) == (None, "malformed")
    assert refused["problem"]["message"]


def test_a_batch_without_an_answer(start):
    """Each item has its own problem: another one may be on disk."""
    gateway = start(connector=Connector(f"tcp://127.0.0.1:{free_port()}", {"timeout": 0.05}))
    with gateway.program("shop") as shop:
        body = {"operations": [{"keys": ["k"]}, {"keys": 5}]}
        answer = shop.post("/v1/batch/operations", json=body)
    assert answer.status_code == 200
    codes = [result["problem"]["code"] for result in answer.json()["results"]]
    assert codes == ["timeout", "malformed"]


def test_a_batch_that_is_none(shop):
    """What is no list of items is refused as a whole."""
    for body in ({}, {"operations": 5}, {"operations": [{}] * 513}, {"operations": [], "x": 1}):
        assert shop.post("/v1/batch/operations", json=body).status_code == 400


def test_list(shop, server):
    """In order of submission, page by page; `key`: those that wait for it."""
    for n in range(5):
        wanted = {"keys": [f"k-{n % 2}"], "op_id": f"a-{n}", "kind": "order", "payload": n}
        shop.post("/v1/operations", json=wanted)
    shop.post("/v1/keys/k-1", json={"value": 7})
    with Client(server.address, name="other", timeout=HANG) as other:
        other.submit("k-0", timeout=3600, op_id="theirs")
    shop.post("/v1/jobs", json={"delay": 3600, "job_id": "job"})  # no operation for its client
    for order, expected in (("oldest", "01234"), ("newest", "43210")):
        pages, cursor = [], 0
        while cursor is not None:
            answer = shop.get(f"/v1/operations?limit=2&order={order}&cursor={cursor}").json()
            pages.append([each["op_id"] for each in answer["operations"]])
            cursor = answer["cursor"]
        assert [op_id for page in pages for op_id in page] == [f"a-{n}" for n in expected]
    found = shop.get("/v1/operations?key=k-0&state=pending").json()["operations"]
    assert [(each["op_id"], each["payload"]) for each in found] == [
        ("a-0", 0),
        ("a-2", 2),
        ("a-4", 4),
    ]
    found = shop.get("/v1/operations?state=completed&kind=order").json()["operations"]
    assert [(each["op_id"], each["result"]) for each in found] == [("a-1", 7), ("a-3", 7)]
    assert shop.get("/v1/operations?client=other").json() == {"operations": [], "cursor": None}
    assert shop.get("/v1/operations?state=late").status_code == 400
    assert shop.get("/v1/operations?order=due").status_code == 400


def test_an_administrator_lists_all(gateway, server):
    """Of all clients, or of one."""
    for name in ("shop", "other"):
        with Client(server.address, name=name, timeout=HANG) as client:
            client.submit("k", timeout=3600, op_id=name)
    with gateway.program("boss", ["administer"]) as boss:
        for query, expected in (("", ["shop", "other"]), ("?client=other", ["other"])):
            found = boss.get(f"/v1/operations{query}").json()["operations"]
            assert [each["op_id"] for each in found] == expected


def test_what_a_page_leaves_out(shop):
    """Payloads beyond what a page may have; asked for alone, each is there."""
    payload = "x" * 60_000
    for number in range(3):
        shop.post("/v1/operations", json={"keys": ["k"], "op_id": f"o{number}", "payload": payload})
        shop.post("/v1/jobs", json={"delay": 60, "job_id": f"j{number}", "payload": payload})
    for kind, name in (("operations", "o2"), ("jobs", "j2")):
        found = shop.get(f"/v1/{kind}").json()[kind]
        assert [each["payload"] is None for each in found] == [False, False, True]
        assert [each["left_out"] > 60_000 for each in found] == [False, False, True]
        alone = shop.get(f"/v1/{kind}/{name}").json()
        assert (alone["payload"], alone["left_out"]) == (payload, 0)
