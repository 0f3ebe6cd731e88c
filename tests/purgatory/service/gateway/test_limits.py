"""`/v1/limits`: kinds are paused and limited."""

import pytest


def test_limits(shop):
    """What is not given stays; 0 takes a limit away."""
    assert shop.get("/v1/limits").json() == {"limits": []}
    for body, expected in (
        ({"kind": "mail", "paused": True}, (True, None, None)),
        ({"kind": "mail", "running": 3, "per_second": 2.5}, (True, 3, 2.5)),
        ({"kind": "mail", "paused": False}, (False, 3, 2.5)),
        ({"kind": "mail", "running": 0}, (False, None, 2.5)),
    ):
        answer = shop.patch("/v1/limits", json=body)
        assert answer.status_code == 200
        [limit] = answer.json()["limits"]
        assert limit.pop("kind") == "mail"
        assert tuple(limit.values()) == expected
        assert shop.get("/v1/limits").json() == answer.json()
    assert shop.patch("/v1/limits", json={"kind": "mail", "per_second": 0}).json()["limits"] == []


def test_a_kind_without_a_name(shop):
    """It has limits, too."""
    answer = shop.patch("/v1/limits", json={"kind": "", "paused": True})
    assert [each["kind"] for each in answer.json()["limits"]] == [""]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": 1},
        {"kind": "a", "running": -1},
        {"kind": "a", "per_second": "fast"},
        {"kind": "a", "x": 1},
    ],
)
def test_bad_limits(shop, body):
    """They are refused, and say where."""
    answer = shop.patch("/v1/limits", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
