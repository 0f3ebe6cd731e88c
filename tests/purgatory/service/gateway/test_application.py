"""The routes of a gateway: unknown ones, other methods, pages of other sites."""

import pytest


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/v1/keys", "/v2/operations"])
def test_unknown_paths(shop, path):
    """Each is answered with a problem, whatever the method, without a token as well."""
    for method in ("GET", "POST", "OPTIONS"):
        answer = shop.request(method, path, headers={"Authorization": ""})
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/healthz", "GET, OPTIONS"),
        ("/v1/openapi.json", "GET, OPTIONS"),
        ("/v1/operations", "OPTIONS, POST"),
        ("/v1/operations/", "OPTIONS, POST"),
        ("/v1/operations/a%2Fb", "DELETE, GET, OPTIONS, PATCH"),
        ("/v1/keys/k", "OPTIONS, POST"),
        ("/v1/outcomes", "GET, OPTIONS"),
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
        assert program.get("/v1/outcomes", headers={"Host": "evil.example"}).status_code == 421
        assert program.get("/v1/outcomes", headers={"Host": "purgatory.example"}).is_success
        assert program.get("/v1/outcomes", headers={"Origin": "http://evil.example"}).json()[
            "code"
        ] == ("origin")
        assert program.get("/v1/outcomes", headers={"Origin": gateway.url}).is_success
