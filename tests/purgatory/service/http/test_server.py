"""WebServer: what it shows over HTTP, read-only, and how it starts and ends."""

import http.client
import json
import re
import socket
import threading
from importlib import resources

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from purgatory.service.errors import ServerError
from purgatory.service.http.server import History, WebServer
from purgatory.service.http.snapshot import StatusReader
from purgatory.service.server.stats import ServerStats
from tests.testing.purgatory_harness import HANG, PurgatoryHarness


@pytest.fixture
def bench():
    return PurgatoryHarness(registry=CollectorRegistry())


@pytest.fixture
def trouble():
    """What the two checks return."""
    return {"health": "", "ready": ""}


@pytest.fixture
def web(bench, trouble):
    p = bench.purgatory
    with WebServer(
        "127.0.0.1:0",
        status=StatusReader(p, now_ms=bench.clock),
        registry=p._registry,
        health=lambda: trouble["health"],
        ready=lambda: trouble["ready"],
    ) as web:
        yield web


def ask(web, path, method="GET", headers=()):
    """Return status, headers and body of a response."""
    connection = http.client.HTTPConnection(web.addr, web.port, timeout=HANG)
    connection.request(method, path, headers=dict(headers))
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


class TestPaths:
    def test_state(self, bench, web):
        """The figures of the moment, and the wheel slot by slot."""
        p = bench.purgatory
        p.defer("a", timeout=0.005)
        p.defer("b", "c", timeout=7)
        p.defer("d").cancel()
        p.complete("a")
        status, headers, body = ask(web, "/state.json")
        state = json.loads(body)
        assert (status, headers["content-type"]) == (200, "application/json")
        assert (state["name"], state["pending"], state["watched_keys"]) == ("bench", 1, 2)
        assert state["outcomes"] == {"completed": 1, "failed": 0, "expired": 0, "cancelled": 1}
        assert [level["tick_ms"] for level in state["levels"]] == [1, 20, 400, 8000]
        assert [sum(level["slots"]) for level in state["levels"]] == [0, 0, 1, 0]
        assert state["levels"][2]["slots"][17] == 1
        assert (state["now_ms"], state["levels"][1]["hand"]) == (0, 0)
        assert sum(state["lateness"]["counts"]) == 0
        assert state["service"] is None
        bench.advance(7.5)
        state = json.loads(ask(web, "/state.json")[2])
        assert state["outcomes"]["expired"] == 1
        assert (state["now_ms"], state["levels"][1]["hand"]) == (7500, 7500 // 20 % 20)

    def test_state_agrees_with_metrics(self, bench, web):
        """Every figure of the page is in /metrics, with the same value."""
        for n in range(50):
            bench.purgatory.defer(n, timeout=n / 7)
            bench.purgatory.complete(n // 2)
        bench.advance(3.3)
        state = json.loads(ask(web, "/state.json")[2])
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(ask(web, "/metrics")[2])
            for sample in family.samples
        }
        assert found["purgatory_operations_pending", "bench"] == state["pending"] > 0
        for outcome, count in state["outcomes"].items():
            assert found["purgatory_operations_total", "bench", outcome] == count
        for number, level in enumerate(state["levels"]):
            occupied = sum(map(bool, level["slots"]))
            assert occupied in {
                value
                for (name, *labels), value in found.items()
                if name == "timingwheel_buckets_occupied" and str(number) in labels
            }
        assert (
            sum(state["lateness"]["counts"]) == found["timingwheel_lateness_seconds_count", "wheel"]
        )
        assert found["mq_mailbox_depth", "bench"] == state["mailbox"]["depth"]

    def test_metrics_in_both_forms(self, web):
        """A client that accepts OpenMetrics gets it; others get the older text format."""
        assert ask(web, "/metrics")[1]["content-type"].startswith("text/plain")
        _, headers, body = ask(
            web, "/metrics", headers={"accept": "application/openmetrics-text"}.items()
        )
        assert headers["content-type"].startswith("application/openmetrics-text")
        assert body.endswith("# EOF\n")

    @pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
    def test_metrics_in_an_unknown_version(self, web, kind):
        """The answer is the older text format."""
        status, headers, _ = ask(web, "/metrics", headers={"accept": f"{kind}; version=x"}.items())
        assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")

    def test_history(self, bench, web):
        """Rows are oldest first; the first is recorded when the server starts."""
        bench.purgatory.defer("k")
        history = json.loads(ask(web, "/history.json")[2])
        assert len(history["rows"][0]) == 8
        assert history["rows"][0][0] <= history["uptime_s"]
        assert history["hour"] == history["rows"][:1] + history["rows"][1:][-1:]

    def test_history_of_an_hour(self):
        """It has a row each half minute, and no more rows after a day."""
        history = History(None, None)
        for second in range(86_400):
            history.add((float(second),))
        answer = [row[0] for row in history.coarse()]
        assert answer[-1] == 86_399
        assert answer[0] == 86_370 - 3600
        assert answer[1] - answer[0] == 30
        assert len(answer) == 122

    def test_checks(self, web, trouble):
        """Health and readiness are reported apart, each with its reason."""
        assert ask(web, "/healthz")[::2] == (200, "ok\n")
        assert ask(web, "/readyz")[::2] == (200, "ok\n")
        trouble["ready"] = "closing"
        assert ask(web, "/healthz")[0] == 200
        assert ask(web, "/readyz")[::2] == (503, "closing\n")
        trouble["health"] = "disk failed"
        assert ask(web, "/healthz")[::2] == (503, "disk failed\n")

    def test_the_page_is_complete(self, web):
        """Every file of the page is served, and none refers to another server."""
        files = resources.files("purgatory.service.http").joinpath("dashboard").iterdir()
        for name in [file.name for file in files]:
            path = "/" if name == "index.html" else f"/{name}"
            status, headers, body = ask(web, path)
            assert status == 200, path
            assert "default-src 'self'" in headers["content-security-policy"]
            outside = set(re.findall(r"https?://[^\s\"')]+", body))
            assert outside <= {"http://www.w3.org/2000/svg"}, (path, outside)

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    def test_read_only(self, web, method):
        """Methods that change something are not allowed."""
        for path in ("/", "/state.json", "/metrics", "/healthz"):
            assert ask(web, path, method)[0] == 405

    @pytest.mark.parametrize("path", ["/nothing", "/../state.py", "/dashboard/page.js", "//"])
    def test_nothing_else(self, web, path):
        """No other file of the package is served."""
        assert ask(web, path)[0] == 404


class TestService:
    def test_the_figures_of_a_server(self, bench):
        """A server's figures are part of the status, which shows the server's mailbox."""
        numbers = dict.fromkeys(ServerStats.__dataclass_fields__, 0)
        stats = ServerStats(**numbers | {"connections": 3, "store_backlog": 4, "messages": 5})
        state = StatusReader(bench.purgatory, lambda: stats)
        assert state.read()["service"]["connections"] == 3
        assert state.read()["mailbox"] == {"depth": 4, "commands": 5}
        assert state.sample()[5] == 4


class TestLife:
    def test_threads(self, bench):
        """There is one thread, with a name, which `close` ends; `close` is idempotent."""
        before = set(threading.enumerate())
        web = WebServer(
            "127.0.0.1:0",
            status=StatusReader(bench.purgatory),
            registry=CollectorRegistry(),
            health=str,
            ready=str,
        )
        (thread,) = set(threading.enumerate()) - before
        assert thread.name == "purgatory-http"
        assert ask(web, "/healthz")[0] == 200
        assert len(set(threading.enumerate()) - before) == 1
        web.close()
        web.close()
        assert set(threading.enumerate()) <= before
        with pytest.raises(ConnectionError):
            ask(web, "/healthz")

    def test_close_at_once(self, bench):
        """Closing right after the start ends the thread too."""
        before = set(threading.enumerate())
        for _ in range(10):
            WebServer(
                "127.0.0.1:0",
                status=StatusReader(bench.purgatory),
                registry=CollectorRegistry(),
                health=str,
                ready=str,
            ).close()
        assert set(threading.enumerate()) <= before

    def test_close_with_a_peer_that_says_nothing(self, web):
        """An open connection delays `close` by about a second at most."""
        with socket.create_connection((web.addr, web.port), HANG) as silent:
            assert ask(web, "/healthz")[0] == 200
            silent.sendall(b"GET / HTTP/1.1\r\n")
            web.close()

    def test_garbage(self, web):
        """It is answered 400, and others are served."""
        with socket.create_connection((web.addr, web.port), HANG) as raw:
            raw.sendall(b"\x16\x03\x01\x02\x00\x01" + bytes(200))
            assert b"400" in raw.recv(1000)
        assert ask(web, "/healthz")[0] == 200

    def test_an_address_in_use(self, web, bench):
        """The constructor raises ServerError."""
        with pytest.raises(ServerError, match=f"127.0.0.1:{web.port}.*in use"):
            WebServer(
                f"127.0.0.1:{web.port}",
                status=StatusReader(bench.purgatory),
                registry=CollectorRegistry(),
                health=str,
                ready=str,
            )

    def test_a_thread_that_ends_at_once(self, bench, monkeypatch, caplog):
        """The constructor raises ServerError and says why; the log has the traceback."""

        def run(self, sockets):
            raise RuntimeError("no event loop")

        monkeypatch.setattr("uvicorn.Server.run", run)
        with pytest.raises(ServerError, match="no event loop"):
            WebServer(
                "127.0.0.1:0",
                status=StatusReader(bench.purgatory),
                registry=CollectorRegistry(),
                health=str,
                ready=str,
            )
        assert "HTTP has ended" in caplog.text
