"""Commands about the jobs of a server in this process."""

import json

import pytest

from purgatory.cli.entry_point import main
from purgatory.service import Client
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def run(server, monkeypatch, capsys):
    """Run `purgatory jobs ...`; returns exit code, output and errors."""
    monkeypatch.setenv("PURGATORY_ADDRESS", server.address)
    monkeypatch.setenv("PURGATORY_NAME", "shop")
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        capsys.readouterr()
        code = main(["jobs", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def rows(run):
    """Run a command with `--json`; returns the rows."""

    def call(*arguments):
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return call


@pytest.fixture
def client(server):
    """A client of the commands' name."""
    with Client(server.address, name="shop", timeout=HANG) as made:
        yield made


@pytest.fixture
def dead(client):
    """Two dead jobs of kind "mail", "a" and "b", and "c" of kind "print"."""
    from purgatory.service import Worker  # noqa: PLC0415

    worker = Worker(client.address, name="shop", max_attempts=1)

    @worker.on("mail")
    @worker.on("print")
    def fail(job):
        raise ValueError("no such address")

    with worker:
        for job_id, kind in (("a", "mail"), ("b", "mail"), ("c", "print")):
            client.schedule(0, kind=kind, job_id=job_id, payload={"to": job_id}, tags=[job_id])
        for job_id in "abc":
            with pytest.raises(Exception, match="no such address"):
                client.result(job_id, HANG)
    return client
