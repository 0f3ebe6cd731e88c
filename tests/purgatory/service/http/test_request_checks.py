"""Requests that name another host are refused: a page of another site may have sent them."""

import pytest

from tests.testing.web_servers import serve, status


@pytest.fixture
def web():
    with serve() as server:
        yield server


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "LOCALHOST:7412",
            "localhost:",
            "localhost.",
            "127.0.0.1:80",
            "[::1]:7412",
            "[::1]",
            "10.1.2.3",
            "status.shop.example",
            "status.shop.example:443",
        ],
    )
    def test_names_of_the_server(self, host):
        """Localhost, addresses and configured names are answered, at any port."""
        with serve(hosts=["status.shop.example"]) as web:
            assert status(web, host=host) == 200

    def test_a_name_with_a_port(self):
        """The refusal quotes it so; it may be configured so."""
        with serve(hosts=["status.shop.example:8443"]) as web:
            for host in ("status.shop.example:8443", "status.shop.example"):
                assert status(web, host=host) == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:7412", "localhost.evil.example", "1.2.3", "a:b:c"]
    )
    @pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/healthz"])
    def test_other_names(self, web, host, path):
        """They are refused, whatever is asked for."""
        assert status(web, path, host) == 421

    @pytest.mark.parametrize(
        ("url", "host", "found"),
        [
            ("http://localhost/healthz", "evil.example", 200),
            ("HTTP://localhost:7412/healthz", None, 200),
            ("http://localhost", None, 200),
            ("http://evil.example/healthz", "localhost", 421),
            ("http://localhost/nothing", None, 404),
        ],
    )
    def test_a_request_for_a_whole_url(self, web, url, host, found):
        """As a proxy gets (RFC 9112, 3.2.2): the host of the URL counts, not the header."""
        assert status(web, url, host) == found

    def test_the_name_it_is_bound_to(self):
        """It is one of its names."""
        with serve("localhost:0") as web:
            assert status(web, host="localhost") == 200
