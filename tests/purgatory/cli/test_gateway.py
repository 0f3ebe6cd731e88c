"""`purgatory gateway`: what it makes of its options; the gateway itself has tests of its own."""

import asyncio

import pytest

from purgatory.cli import gateway as command
from purgatory.service.gateway import server as module


@pytest.fixture
def made(monkeypatch):
    """The arguments of the gateway that the command makes, which does not run."""
    found = {}

    class Gateway:
        url = "http://127.0.0.1:1"

        def __init__(self, bind, **options):
            found.update(options, bind=bind)

        def run(self, when_ready):
            when_ready()

    monkeypatch.setattr(module, "Gateway", Gateway)
    return found


def test_options(run, made, tmp_path):
    """Where it listens, and its names."""
    where = ("--bind", "127.0.0.1:0", "--data-dir", tmp_path)
    code, out, err = run("gateway", *where, "--hosts", "a,b")
    assert (code, out, err) == (0, "serving http://127.0.0.1:1\n", "")
    assert made["bind"] == "127.0.0.1:0"
    assert tuple(made["hosts"]) == ("a", "b")


@pytest.mark.parametrize("name", ["a/b", "https://a", "a:443"])
def test_a_host_that_no_request_names(run, made, tmp_path, name):
    """The command says what it expects, and does not start."""
    code, _, err = run("gateway", "--data-dir", tmp_path, "--hosts", f"a,{name}")
    assert code == 2
    assert f"--hosts has {name!r}; expected names such as jobs.example.org" in err
    assert not made


def test_the_format_of_the_log(run, made, tmp_path, monkeypatch):
    """That of the option, else of the environment."""
    formats = []
    monkeypatch.setattr(command, "configure_logging", lambda given, verbose: formats.append(given))
    monkeypatch.setenv("PURGATORY_LOG_FORMAT", "json")
    assert run("gateway", "--data-dir", tmp_path)[0] == 0
    assert run("gateway", "--data-dir", tmp_path, "--log-format", "text")[0] == 0
    assert formats == ["json", "text"]


def test_systemd_is_notified(run, made, tmp_path, service_manager):
    """When the gateway serves: the unit of the server is for gateways, too."""
    assert run("gateway", "--data-dir", tmp_path)[0] == 0
    assert service_manager.recv(100) == b"READY=1"


def test_tokens_name_the_clients(run, made, tmp_path, monkeypatch):
    """Whatever PURGATORY_NAME is; the command has no `--name`."""
    monkeypatch.setenv("PURGATORY_NAME", "mine")
    assert run("gateway", "--data-dir", tmp_path)[0] == 0

    async def name_of_a_client():
        async with made["connector"].client("shop") as client:
            return client.name

    assert asyncio.run(name_of_a_client()) == "shop"
    assert run("gateway", "--name", "mine")[0] == 2


def test_a_missing_certificate(run, made, tmp_path):
    """The command ends before anything listens, and names the file."""
    code, _, err = run("gateway", "--tls-certificate", tmp_path / "c.pem", "--tls-key", "k.pem")
    assert (code, made) == (2, {})
    assert "c.pem" in err


def test_a_bad_address_of_the_server(run, made):
    """It is told at once, not with each request."""
    code, out, err = run("gateway", "--address", "nowhere")
    assert (code, out, err.count("\n"), made) == (2, "", 1, {})
