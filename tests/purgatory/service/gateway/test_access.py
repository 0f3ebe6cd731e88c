"""`/v1/access`: what a token may do."""

import httpx
import pytest


@pytest.mark.parametrize(
    ("rights", "expected", "sees_all"),
    [
        (["read"], ["read"], False),
        (["work", "submit"], ["submit", "work"], False),
        (["complete"], ["complete"], False),
        (["administer"], ["submit", "complete", "read", "work", "administer"], True),
    ],
)
def test_rights(gateway, rights, expected, sees_all):
    """Any token may ask; the rights come in the order of the documentation."""
    with gateway.program("shop", rights) as program:
        answer = program.get("/v1/access")
    assert answer.status_code == 200
    assert answer.json() == {"client": "shop", "rights": expected, "sees_all": sees_all}


def test_without_a_token(gateway):
    """Nothing is told."""
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic x"}):
        assert httpx.get(f"{gateway.url}/v1/access", headers=headers).status_code == 401
