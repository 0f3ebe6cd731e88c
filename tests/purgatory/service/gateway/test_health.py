"""Health of a gateway: `/healthz`, `/readyz`, `/metrics`, without a token."""

import httpx
import pytest

from purgatory.service.gateway import application
from purgatory.service.gateway import health as module
from purgatory.service.gateway.callers import Connector
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port


def get(gateway, path):
    """Ask without a token."""
    return httpx.get(f"{gateway.url}{path}", timeout=HANG)


def test_a_server_that_goes_and_comes_back(serve, start, monkeypatch):
    """The gateway lives all the time, and is ready while its server answers."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.5)
    address = f"tcp://127.0.0.1:{free_port()}"
    gateway = start(address, connector=Connector(address, {"timeout": 0.5}))
    answer = get(gateway, "/readyz")
    assert (answer.status_code, "answer" in answer.text) == (503, True)
    server = serve(memory=True, bind=address)
    eventually(lambda: get(gateway, "/readyz").text == "ready\n")
    server.close()
    server.wait(HANG)
    eventually(lambda: get(gateway, "/readyz").status_code == 503)
    assert get(gateway, "/healthz").text == "ok\n"


def test_metrics(gateway, shop):
    """They count answers, by method and status, and what is open."""
    shop.post("/v1/operations", json={"keys": ["k"]})
    shop.get("/v1/operations/none")
    shop.request("BREW", "/v1/operations")
    with shop.stream("GET", "/v1/outcomes/stream"):
        answer = get(gateway, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = set(answer.text.splitlines())
    for line in (
        'purgatory_gateway_requests_total{method="POST",status="201"} 1.0',
        'purgatory_gateway_requests_total{method="GET",status="404"} 1.0',
        'purgatory_gateway_requests_total{method="other",status="405"} 1.0',
        'purgatory_gateway_requests_total{method="GET",status="200"} 1.0',
        "purgatory_gateway_open_requests 2.0",
    ):
        assert line in lines


def test_refused_hosts_and_sites_are_not_counted(gateway):
    """These are refused before the API, as the text of the metric says."""
    for name, status in (("Host", 421), ("Origin", 403)):
        answer = httpx.get(
            f"{gateway.url}/healthz", headers={name: "https://a.example"}, timeout=HANG
        )
        assert answer.status_code == status
    found = get(gateway, "/metrics").text
    assert "Requests answered, but for other hosts and sites;" in found
    assert "purgatory_gateway_requests_total{" not in found


def test_each_method_of_a_route_counts_by_its_name():
    """The word `other` is for methods that no route has."""
    routes = [*application._METHODS.values(), {each.method for each in application.ENDPOINTS}]
    assert {"OPTIONS"}.union(*routes) == set(module._METHODS)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_other_names_of_this_machine(gateway, path):
    """They, too, are for those that mean this machine."""
    answer = httpx.get(f"{gateway.url}{path}", headers={"Host": "evil.example"}, timeout=HANG)
    assert answer.status_code == 421
