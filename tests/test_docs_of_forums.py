"""What the pages answer to questions of a forum is what the code does."""

import importlib
import inspect
import re
import threading

import freezegun

from purgatory import OperationExpired, Purgatory
from purgatory.service import Client, Config, Server, ServiceDaemon, Worker
from tests.test_docs import ROOT, text_of
from tests.testing.purgatory_harness import HANG


def test_the_reference_leaves_out_the_methods_of_builtins():
    """docs/conf.py names each built-in class that a public class extends."""
    listed = re.search(r'"inherited-members":[\s(]*"(.*?)"', (ROOT / "docs/conf.py").read_text())
    extended = set()
    for page in (ROOT / "docs/api").glob("*.md"):
        for name in re.findall(r"automodule:: (\S+)", page.read_text()):
            module = importlib.import_module(name)
            for public in getattr(module, "__all__", ()):
                each = getattr(module, public)
                if inspect.isclass(each):
                    extended |= {base for base in each.__mro__ if base.__module__ == "builtins"}
    named = set(listed[1].split(", "))
    assert str in extended
    # The built-in errors add no method of their own.
    assert {base.__name__ for base in extended if not issubclass(base, BaseException)} <= named


def test_frozen_time():
    """howto/testing.md: a purgatory of the program goes by time that freezegun moves."""
    with freezegun.freeze_time("2027-03-01") as frozen, Purgatory() as purgatory:
        future = purgatory.defer("paid:17", timeout=3600)
        frozen.tick(3600)
        assert isinstance(future.exception(HANG), OperationExpired)
    assert "follows time that freezegun freezes" in text_of("docs/howto/testing.md")


def test_one_job_of_a_customer_at_a_time():
    """howto/rate-limits.md: handlers that work within a named lease take turns."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    busy = {1: threading.Lock(), 2: threading.Lock()}
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")

        @worker.on("export")
        def export(job):
            with client.lease(f"customer:{job.payload}"):
                alone = busy[job.payload].acquire(blocking=False)
                client.flush()  # takes a moment
                busy[job.payload].release()
                return alone

        jobs = [client.schedule(0, kind="export", payload=1 + n % 2) for n in range(8)]
        with worker:
            assert all(job.result(HANG) for job in jobs)
    assert '`with client.lease(f"customer:{number}")`' in text_of("docs/howto/rate-limits.md")


def test_which_directory_of_a_volume(tmp_path):
    """service.md: a new directory in a volume that is open to its group is the server's alone."""
    tmp_path.chmod(0o2775)
    data = tmp_path / "data"
    config = Config(data_dir=data, bind="tcp://127.0.0.1:0", http_bind="", journal=False)
    with Server(config):
        assert data.stat().st_mode & 0o777 == 0o700
    assert "give it a new directory within the volume" in text_of("docs/service.md")


def test_a_database_does_not_shrink(tmp_path):
    """service.md: the pages of ended operations stay in the file."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="", journal=False)
    database = tmp_path / "purgatory.db"
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        for number in range(200):
            client.defer(f"paid:{number}", timeout=3600, payload="x" * 10_000)
        client.flush()
    full = database.stat().st_size
    assert full > 2_000_000
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        for number in range(200):
            client.complete(f"paid:{number}")
    assert database.stat().st_size >= full
    assert "The file of the database does not shrink" in text_of("docs/service.md")
