"""WatchedWorker: what a job's entry has of its leases, when workers lose their connections."""

import threading

import pytest

from purgatory.service import Client, Config, ServiceDaemon
from tests.drill.clock import now
from tests.drill.job_entry import JobEntry, Run
from tests.drill.watched_worker import WatchedWorker
from tests.postgres.proxy import Link, Proxy
from tests.testing.eventually import eventually


class Bench:
    """Two workers of one name; each has a link of its own, and its handler waits for the test."""

    def __init__(self, server):
        self.entry = JobEntry("job")
        port = int(server.address.rpartition(":")[2])
        self.links = [Proxy(port), Proxy(port)]
        self.begun = [threading.Event(), threading.Event()]
        self.may_return = [threading.Event(), threading.Event()]
        self.workers = [self._worker(at, link) for at, link in enumerate(self.links)]

    def _worker(self, at, link):
        address, label = f"tcp://127.0.0.1:{link.port}", f"worker-{at}"
        worker = WatchedWorker(address, {"job": self.entry}, label, name="jobs", lease=600.0)

        @worker.on("drill")
        def handle(job):
            began_at = now()
            self.begun[at].set()
            self.may_return[at].wait()
            self.entry.runs.append(Run(job.token, began_at, now(), label))
            return job.token

        return worker

    def begins(self, at):
        """Start a worker, and wait until its handler runs and the server knows."""
        self.workers[at].start()
        assert self.begun[at].wait(60)

    def returns(self, at):
        """Let a handler return, and wait until that is told, to whom it may concern."""
        told = len(self.entry.ends)
        self.may_return[at].set()
        eventually(lambda: len(self.entry.ends) > told)

    def close(self):
        for event in self.may_return:
            event.set()
        for link in self.links:
            link.set(Link.FORWARD)
        for worker in self.workers:
            worker.stop(0)
        for link in self.links:
            link.close()


@pytest.fixture
def server():
    with ServiceDaemon(Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")) as service:
        yield service.server


@pytest.fixture
def bench(server):
    bench = Bench(server)
    yield bench
    bench.close()


def test_a_run_that_goes_on_after_another_run(bench, server):
    """The job is done under the last lease, with the result of the run that its worker had."""
    entry = bench.entry
    with Client(server.address, name="jobs") as client:
        client.schedule(0, kind="drill", job_id="job")
        bench.begins(0)
        bench.links[0].set(Link.CUT)  # its lease is lost
        bench.begins(1)
        bench.links[1].set(Link.CUT)
        bench.returns(1)  # the server does not hear of that
        bench.links[0].set(Link.FORWARD)
        eventually(lambda: len(entry.given) == 3)
        bench.returns(0)
        entry.result, entry.state = client.result("job", 60), "done"
    eventually(lambda: any(end.taken for end in entry.ends))
    first, second, third = [lease.token for lease in entry.given]
    assert [lease.worker for lease in entry.given] == ["worker-0", "worker-1", "worker-0"]
    assert (entry.result, [run.token for run in entry.runs]) == (first, [second, first])
    assert [(end.token, end.taken) for end in entry.ends] == [(second, None), (third, True)]
    assert (entry.went_on, entry.was_overtaken, list(entry.broken())) == (True, True, [])
