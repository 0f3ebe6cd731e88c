"""Tokens and rights: which callers a gateway has, and what they may do."""

import pytest


def test_no_token(gateway, shop):
    """Each route asks for one; a revoked one is useless at once."""
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
        shop.headers.pop("Authorization", None)
        answer = shop.get("/v1/outcomes", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "token")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    with gateway.program("till") as till:
        assert till.get("/v1/outcomes").status_code == 200
        assert gateway.tokens.revoke("till") == 1
        assert till.get("/v1/outcomes").status_code == 401


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        ("submit", {"submit", "batch", "job", "extend", "cancel", "acknowledge"}),
        ("complete", {"complete"}),
        ("read", {"look", "unread"}),
        ("work", {"take", "keep", "finish", "return"}),
        (
            "administer",
            {
                *("submit", "batch", "job", "extend", "cancel", "acknowledge"),
                *("complete", "look", "unread", "take", "keep", "finish", "return"),
            },
        ),
    ],
)
def test_rights(gateway, right, allowed):
    """A token may do what it was given, and no more."""
    with gateway.program("x", [right]) as program:
        answers = {
            "submit": program.post("/v1/operations", json={"keys": ["k"]}),
            "batch": program.post("/v1/batch/operations", json={"operations": []}),
            "job": program.post("/v1/jobs", json={"delay": 60}),
            "extend": program.patch("/v1/operations/none", json={"timeout": 1}),
            "cancel": program.delete("/v1/operations/none"),
            "acknowledge": program.post("/v1/outcomes/acknowledge", json={"numbers": []}),
            "complete": program.post("/v1/keys/k", json={}),
            "look": program.get("/v1/operations/none"),
            "unread": program.get("/v1/outcomes"),
            "take": program.post("/v1/leases", json={"kinds": ["x"], "wait": 0}),
            "keep": program.post("/v1/leases/keep", json={"leases": []}),
            "finish": program.post("/v1/leases/acknowledge", json={"leases": []}),
            "return": program.post("/v1/leases/return", json={"leases": []}),
        }
    refused = {name for name, answer in answers.items() if answer.status_code == 403}
    assert refused == set(answers) - allowed
    assert all(answers[name].json()["code"] == "not-allowed" for name in refused)


def test_operations_of_others(gateway, shop):
    """They are not known to a token, unless it may administer."""
    shop.post("/v1/operations", json={"keys": ["k"], "op_id": "a"})
    with gateway.program("till") as till:
        assert till.get("/v1/operations/a").status_code == 404
        assert till.delete("/v1/operations/a").status_code == 404
        assert till.patch("/v1/operations/a", json={"timeout": 1}).status_code == 404
    with gateway.program("boss", ["administer"]) as boss:
        assert boss.get("/v1/operations/a").json()["client"] == "shop"
        assert boss.delete("/v1/operations/a").json() == {"done": True}
