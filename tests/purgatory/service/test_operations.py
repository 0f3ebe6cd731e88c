"""The Grafana dashboard and the systemd unit in docs/deploy fit the server."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from purgatory.cli import entry_point as cli
from purgatory.core.operations.operation_state import Outcome
from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon

DEPLOY = Path(__file__).parents[3] / "docs" / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "purgatory.json").read_text())
METRIC = re.compile(r"\b((?:purgatory|timingwheel|mq|process|python)_[a-z_]+)(?:\{([^}]*)\})?")
# Labels that Prometheus adds to all that it scrapes.
ADDED = {"instance"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Sample name -> labels, of all that a server shows."""
    directory = tmp_path_factory.mktemp("data")
    config = Config(data_dir=directory, bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.schedule(60, kind="mail")
        assert client.cancel_job(client.schedule(60, kind="mail").id)
        text = generate_latest(service.server.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions():
    """Return each expression of the dashboard, with the title of its panel."""
    return [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]


class TestDashboard:
    @pytest.mark.parametrize(("title", "expression"), expressions())
    def test_metrics_exist(self, shown, title, expression):
        """A server shows every metric of a panel, with the labels that the panel uses."""
        used = METRIC.findall(expression)
        assert used
        for name, matchers in used:
            assert name in shown, name
            labels = set(re.findall(r"(\w+)\s*[=!]~?", matchers))
            assert labels <= shown[name] | ADDED, (name, labels)
            for grouped in re.findall(r"by \(([^)]*)\)", expression):
                assert {label.strip() for label in grouped.split(",")} <= shown[name]

    def test_every_metric_has_a_panel(self, shown):
        """Every metric of a server is in a panel, but for those that say the same as others."""
        used = {name for _, text in expressions() for name, _ in METRIC.findall(text)}
        histograms = (
            *("timingwheel_lateness_seconds", "purgatory_server_commit_duration_seconds"),
            *("purgatory_job_queue_seconds", "purgatory_job_duration_seconds"),
        )
        derived = {f"{name}_{end}" for name in histograms for end in ("sum", "count")}
        elsewhere = {
            "timingwheel_timers_pending",  # as many as operations
            "mq_mailbox_commands_total",
            "purgatory_repeats",  # changes when programs declare some, not by itself
            "purgatory_server_uptime_seconds",
            "process_start_time_seconds",  # likewise
            "python_info",  # as in purgatory_build_info
            "purgatory_server_outcomes_total",  # as purgatory_operations_total, once on disk
        }
        assert set(shown) - used - derived - elsewhere == set()

    def test_variables_exist(self, shown):
        """The dashboard's variables are labels that exist."""
        for variable in DASHBOARD["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(
                    r"label_values\((\w+), (\w+)\)", variable["definition"]
                ).groups()
                assert label in shown[metric] | ADDED

    def test_the_panel_of_all_ends(self):
        """Its description names each outcome that it counts."""
        [panel] = [each for each in DASHBOARD["panels"] if each["title"] == "Ended per second"]
        assert [each for each in Outcome if each not in panel["description"]] == []

    def test_panels(self):
        """Each panel has a title, a description that says more, and a place of its own."""
        panels = DASHBOARD["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert all(panel["title"] and panel["description"] for panel in panels)
        assert [each for each in panels if each["title"] == each["description"]] == []
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            assert all(x < 24 for x, _ in cells)
            taken |= cells


class TestUnit:
    def test_command_and_settings_exist(self):
        """Its command, its setting and its kind of start exist."""
        unit = configparser.ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str
        unit.read(DEPLOY / "purgatory.service")
        service = unit["Service"]
        program, *argv = service["ExecStart"].split()
        assert program.endswith("/bin/purgatory")
        assert cli.make_parser().parse_args(argv).run.__module__ == "purgatory.cli.serve"
        name, value = service["Environment"].split("=")
        assert str(Config.load(environment={name: value}).data_dir) == value
        assert service["Type"] == "notify"
        assert unit["Unit"]["StartLimitIntervalSec"] == "0"  # the database may be away for long

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
    def test_systemd_takes_it(self, tmp_path):
        """systemd accepts every line of it."""
        text = (DEPLOY / "purgatory.service").read_text()
        path = tmp_path / "purgatory.service"
        path.write_text(text.replace("/opt/purgatory/bin/purgatory", "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
        )
        assert "purgatory.service" not in done.stderr
        assert done.returncode == 0
