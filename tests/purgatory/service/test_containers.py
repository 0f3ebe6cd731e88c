"""The Dockerfile and the compose file in docs/deploy fit the server and the source tree."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from purgatory.cli import entry_point as cli
from purgatory.service import Config
from purgatory.service.auth.authenticator import authenticator_for
from purgatory.service.client.route.addresses import parse_addresses
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "docs" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OVER_POSTGRES = yaml.safe_load((DEPLOY / "compose-postgres.yaml").read_text())["services"]
TWO_SERVERS = [OVER_POSTGRES[name] for name in "ab"]
SCRAPES = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())


def instructions(name):
    """Return the arguments of each instruction of that name in the Dockerfile."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def image_environment():
    """Return the variables of the image."""
    return dict(entry.split("=", 1) for entry in instructions("ENV"))


def test_our_processes_are_not_the_first_of_a_container():
    """Python takes a while to load, and until then the kernel drops SIGTERM for the first one."""
    ours = [one for one in (*SERVICES.values(), *OVER_POSTGRES.values()) if "build" in one]
    assert len(ours) >= 2
    assert all(one["init"] for one in ours)


class TestDockerfile:
    def test_it_is_made_of_instructions(self):
        """Each line is one that Docker knows, or a comment."""
        lines = (DEPLOY / "Dockerfile").read_text().splitlines()
        known = {"FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK",
                 "STOPSIGNAL", "ENTRYPOINT", "CMD"}  # fmt: skip
        assert {line.split()[0] for line in lines if line and not line.startswith("#")} == known

    def test_the_command_exists(self):
        """What a container runs is a command of ours."""
        [entry_point], [command] = instructions("ENTRYPOINT"), instructions("CMD")
        scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
        assert set(json.loads(entry_point)) == set(scripts)
        parsed = cli.make_parser().parse_args(json.loads(command))
        assert parsed.run.__module__ == "purgatory.cli.serve"

    def test_the_extra_exists(self):
        """The image has what a server needs."""
        [extras] = re.findall(r"/src\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text())
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"])

    def test_its_settings_are_ours(self):
        """They are settings of the server, and agree with the volume and the ports."""
        environment = image_environment()
        config = Config.load(environment=environment)
        ours = {name for name in environment if name.startswith("PURGATORY_")}
        assert {name.removeprefix("PURGATORY_").lower() for name in ours} <= set(
            Config.__dataclass_fields__
        )
        assert [str(config.data_dir)] == instructions("VOLUME")
        ports = [config.bind.rpartition(":")[2], config.http_bind.rpartition(":")[2]]
        assert instructions("EXPOSE") == [" ".join(ports)]

    def test_the_health_check_runs(self):
        """It succeeds beside a server, and fails without one."""
        [check] = instructions("HEALTHCHECK")
        command = json.loads(check.partition("CMD ")[2])
        config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
        with ServiceDaemon(config) as service:
            program = command[2].replace("http://127.0.0.1:7412/", service.url)
            assert program != command[2]
            assert self.run(program) == 0
        assert self.run(program) != 0

    @staticmethod
    def run(program):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=HANG, check=False
        )
        return done.returncode


class TestCompose:
    def test_the_server_starts_with_its_settings(self):
        """They are complete: it wants no keys, and its command exists."""
        service = SERVICES["purgatory"]
        cli.make_parser().parse_args(service["command"])
        config = Config.load(environment=image_environment() | service["environment"])
        assert authenticator_for(config) is None

    def test_files_exist(self):
        """Every file that a service is given is in the source tree."""
        build = SERVICES["purgatory"]["build"]
        context = (DEPLOY / build["context"]).resolve()
        assert context == ROOT
        assert (context / build["dockerfile"]).is_file()
        for service in SERVICES.values():
            for volume in service["volumes"]:
                source = volume.split(":")[0]
                exists = (
                    (DEPLOY / source).is_file() if "/" in source else source in COMPOSE["volumes"]
                )
                assert exists, volume

    def test_prometheus_may_ask(self):
        """It asks for the metrics by a name and a port that the server has."""
        [job] = SCRAPES["scrape_configs"]
        [target] = job["static_configs"][0]["targets"]
        name, _, port = target.rpartition(":")
        environment = image_environment() | SERVICES[name]["environment"]
        config = Config.load(environment=environment)
        assert name in config.http_hosts.split(",")
        assert config.http_bind.endswith(f":{port}")

    def test_grafana_finds_data_and_dashboard(self):
        """Its data source is Prometheus; the dashboard is where it looks."""
        folder = DEPLOY / "grafana" / "provisioning"
        [source] = yaml.safe_load((folder / "datasource.yaml").read_text())["datasources"]
        address = urlsplit(source["url"])
        assert any(
            entry.endswith(f":{address.port}") for entry in SERVICES[address.hostname]["ports"]
        )
        [provider] = yaml.safe_load((folder / "dashboards.yaml").read_text())["providers"]
        targets = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
        assert any(target.startswith(provider["options"]["path"] + "/") for target in targets)

    def test_only_this_machine_reaches_the_ports(self):
        """For there are no keys."""
        for service in SERVICES.values():
            assert all(entry.startswith("127.0.0.1:") for entry in service["ports"])


class TestTwoServers:
    """compose-postgres.yaml: two servers over one PostgreSQL."""

    @pytest.mark.parametrize("server", TWO_SERVERS)
    def test_its_settings_are_ours(self, server):
        """Each has the database, and is reached at the port that it gives as its address."""
        environment = image_environment() | server["environment"]
        assert cli.make_parser().parse_args(server["command"]).run.__module__.endswith(".serve")
        config = Config.load(environment=environment)
        user = OVER_POSTGRES["postgres"]["environment"]
        assert config.store == "postgresql://{0}:{1}@postgres/{0}".format(
            user["POSTGRES_USER"], user["POSTGRES_PASSWORD"]
        )
        own = f"{config.advertise.removeprefix('tcp://')}:{config.bind.rpartition(':')[2]}"
        assert own in server["ports"]

    def test_a_client_reaches_both(self):
        """The addresses of the file's first lines are those that the servers give."""
        [line] = re.findall(
            r"PURGATORY_ADDRESS=(\S+)", (DEPLOY / "compose-postgres.yaml").read_text()
        )
        advertised = [server["environment"]["PURGATORY_ADVERTISE"] for server in TWO_SERVERS]
        assert list(parse_addresses(line)) == advertised
        ports = [port for server in TWO_SERVERS for port in server["ports"]]
        assert all(port.startswith("127.0.0.1:") for port in ports)
        assert len(set(ports)) == 4
