"""The alert rules fire and resolve; Prometheus gets data for each panel and each rule.

promtool and prometheus are Debian's; without them these tests are skipped, but not in CI.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from purgatory.cli import entry_point as cli
from purgatory.service import Client, Config
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.cluster.cluster_status import ClusterCollector, ClusterStatus, Role
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.gateway.callers import Connector
from purgatory.service.gateway.server import Gateway, TLSFiles
from purgatory.service.worker.worker import Worker
from tests.purgatory.service.test_operations import DASHBOARD, DEPLOY, METRIC, expressions
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port

yaml = pytest.importorskip("yaml")

RULES = DEPLOY / "prometheus" / "alerts.yml"
SCENES = Path(__file__).parent / "alerts_test.yml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def program(name):
    """Return the path of a program of Prometheus; skip without, fail in CI."""
    found = shutil.which(name)
    if found is None and not os.environ.get("CI"):
        pytest.skip(f"{name} is not installed")
    assert found is not None
    return found


def test_every_alert_fires_and_resolves():
    """Each has a scene in which it is silent, fires with its labels and texts, and is silent."""
    done = subprocess.run(
        [program("promtool"), "test", "rules", SCENES],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    looks = {}
    for scene in yaml.safe_load(SCENES.read_text())["tests"]:
        for look in scene["alert_rule_test"]:
            looks.setdefault(look["alertname"], []).append("exp_alerts" in look)
    assert looks == {rule["alert"]: [False, True, False] for rule in ALERTS}


def test_an_alert_says_what_to_do():
    """It names the instance or the kind, and the next step; the commands of it exist."""
    for rule in ALERTS:
        texts = rule["annotations"]
        assert re.search(r"\$labels\.(instance|kind)", texts["summary"])
        assert texts["action"].endswith(".")
        for command in re.findall(r"purgatory (jobs \w+(?: --state \w+)?)", texts["action"]):
            argv = [*command.split(), *([] if " list" in command else ["an-id"])]
            assert cli.make_parser().parse_args(argv).run
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_the_page_lists_the_alerts():
    """docs/service.md has each by name."""
    page = (DEPLOY.parent / "service.md").read_text()
    assert re.findall(r"^\| `(Purgatory\w+)`", page, re.MULTILINE) == [
        rule["alert"] for rule in ALERTS
    ]


class Prometheus:
    """A Prometheus that scrapes `target` each half second, with the rules."""

    def __init__(self, directory, target):
        self.address = f"127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "purgatory", "static_configs": [{"targets": [target]}]}
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        with (directory / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={file}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address={self.address}",
                ],
                stderr=log,
            )

    def ask(self, path, **parameters):
        """Return the data of an answer of its API; None while it does not answer."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=HANG) as answer:
                return json.load(answer)["data"]
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) and error.code != 503:
                raise AssertionError(error.read()) from error
            return None

    def wait_for(self, expression):
        """Return the series of an expression as soon as there are any."""
        found = []

        def is_there():
            data = self.ask("query", query=expression)
            found[:] = data["result"] if data else []
            return found

        eventually(is_there)
        return found

    def close(self):
        """End it."""
        self.process.terminate()
        self.process.wait(HANG)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Run a server with traffic, jobs and a worker, and a Prometheus that scrapes it."""
    directory = tmp_path_factory.mktemp("prometheus")
    config = Config(data_dir=directory / "data", bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        # Those of a server among others, beside those of one by itself.
        status = ClusterStatus(role=Role.ACTIVE, address=service.server.address)
        service.server.registry.register(ClusterCollector(lambda: status))
        worker = Worker(service.server.address, name="shop")
        worker.on("mail")(print)
        with worker:
            client.schedule(0, kind="mail")
            client.schedule(0, kind="mial")  # no worker takes it
            future = client.defer("k", timeout=30)
            client.complete("k")
            future.result(HANG)
            prometheus = Prometheus(directory, urlsplit(service.url).netloc)
            try:
                prometheus.wait_for("rate(purgatory_server_messages_total[10s])")
                yield prometheus
            finally:
                prometheus.close()


class TestPrometheus:
    @pytest.mark.parametrize(("title", "expression"), expressions())
    def test_each_panel_has_data(self, prometheus, title, expression):
        """The query of each panel finds series of a real server."""
        for variable in DASHBOARD["templating"]["list"]:
            expression = expression.replace(f"${variable['name']}", ".*")
        assert prometheus.wait_for(expression.replace("$__rate_interval", "10s")), title

    def test_each_rule_is_evaluated(self, prometheus):
        """Prometheus takes the rules; their metrics are there."""
        for rule in ALERTS:
            for name, _ in METRIC.findall(rule["expr"]):
                assert prometheus.wait_for(name)
        groups = prometheus.ask("rules")["groups"]
        health = {
            rule["name"]: rule.get("lastError", "") for group in groups for rule in group["rules"]
        }
        assert health == {rule["alert"]: "" for rule in ALERTS}

    def test_a_kind_without_a_worker(self, prometheus):
        """The rule finds the mistyped kind, and no other."""
        [rule] = [rule for rule in ALERTS if rule["alert"] == "PurgatoryKindWithoutWorker"]
        [found] = prometheus.wait_for(rule["expr"])
        assert found["metric"]["kind"] == "mial"

    def test_promtool_likes_the_metrics(self, prometheus):
        """Names, types and texts follow the conventions."""
        [target] = prometheus.ask("targets")["activeTargets"]
        assert complaints(target["scrapeUrl"]) == ""


def complaints(url):
    """Return what promtool has against the metrics at an URL; empty if nothing."""
    with urllib.request.urlopen(url, timeout=HANG) as answer:
        text = answer.read()
    command = [program("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=HANG)
    return done.stderr.decode() + (str(done.returncode) if done.returncode else "")


def test_promtool_likes_the_metrics_of_a_worker(serve):
    """Those that it serves while it runs."""
    worker = Worker(serve().address, name="shop", metrics_port=0)
    worker.on("mail")(print)
    with worker:
        eventually(lambda: worker.metrics_port)
        assert complaints(f"http://127.0.0.1:{worker.metrics_port}/metrics") == ""


def test_promtool_likes_the_metrics_of_a_gateway(serve, tmp_path):
    """Those that it has after a first answer."""
    tokens = TokenStore(tmp_path / "tokens")
    connector = Connector(serve().address, {"timeout": HANG})
    files = TLSFiles(None, None)
    gateway = Gateway("127.0.0.1:0", tokens=tokens, connector=connector, tls=files)
    thread = threading.Thread(target=gateway.run)
    thread.start()
    try:
        eventually(lambda: complaints(f"{gateway.url}/metrics") == "")
        assert complaints(f"{gateway.url}/metrics") == ""
    finally:
        gateway.stop()
        thread.join(HANG)
