"""SIGKILL of workers and of the server at random moments under load, judged by the handlers' log.

`PURGATORY_ROUNDS` is how often; a failure prints the seed.
"""

import os
import random
import subprocess
import sys
import threading
from collections import defaultdict

from purgatory.service import Client
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "2"))
WORKERS = 2

# Appends a line for each begin of a handler, and for each end that the server has acknowledged.
PROGRAM = """
import os, sys, random
from purgatory.service import Worker
from purgatory.service.protocol import How
from purgatory.service.worker import worker as worker_module

log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def write(*words):
    os.write(log, (" ".join(map(str, words)) + "\\n").encode())

class LoggingLoop(worker_module.WorkerLoop):
    def _on_ended(self, held, end, reply):
        if reply.exception() is None and reply.result() and end.how == How.DONE:
            write("done", held.leased.op_id, end.token)
        super()._on_ended(held, end, reply)

worker_module.WorkerLoop = LoggingLoop
worker = Worker(
    sys.argv[1], name="jobs", lease=0.5, concurrency=4,
    retry_delay=0.01, max_retry_delay=0.1, max_attempts=10**6,
)

@worker.on("work")
def run(job):
    write("begin", job.id, job.token)
    if random.random() < 0.1:
        raise ValueError("by chance")

worker.run()
"""


class Workers:
    """Processes that run jobs."""

    def __init__(self, address, log):
        self.command = [sys.executable, "-c", PROGRAM, address, str(log)]
        self.processes = [self.start() for _ in range(WORKERS)]

    def start(self):
        return subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_one(self, at):
        self.processes[at].kill()
        self.processes[at].wait(HANG)
        self.processes[at] = self.start()

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait(HANG)


class Load:
    """Schedules jobs in a thread; `accepted` are those that the server has on disk."""

    def __init__(self, address, rng):
        self.random = rng
        self.client = Client(address, name="jobs", timeout=HANG)
        self.replies = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stop.wait(0.01):
            for _ in range(self.random.choice((1, 5, 20))):
                delay = self.random.choice((0, 0.05, 0.4))
                self.replies.append(self.client.schedule_later(delay, kind="work"))

    def end(self):
        self.stop.set()
        self.thread.join(HANG)
        return {reply.result(HANG).id for reply in self.replies}


def jobs_left(client):
    """Return how many jobs are not done, at one moment: all that wait may become due at once."""
    figures = client.stats()
    return figures["pending"] + figures["unacknowledged"]


def judge(lines, accepted):
    """Check which leases the handlers had, and under which of them jobs were ended.

    Not in which order they have written it: a worker that stalls may write the begin of a handler
    when its lease has ended, and another worker has done the job. Tokens tell the order of leases.
    """
    begun, done = defaultdict(list), {}
    for what, op_id, token in (line.split() for line in lines):
        if what == "begin":
            begun[op_id].append(int(token))
        else:
            assert op_id not in done, f"{op_id} was done twice"
            done[op_id] = int(token)
    for op_id, tokens in begun.items():
        assert len(set(tokens)) == len(tokens), f"{op_id}: two workers had it"
        # Above all, if the job was leased once more to the worker that was running it.
        assert done.get(op_id, max(tokens)) >= max(tokens), f"{op_id} was leased after it was done"
    assert set(begun) == accepted, "jobs were lost, or made up"


def test_kill(tmp_path):
    """Each job is done at least once, what is acknowledged never again, and none is lost."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # of a failure
    rng = random.Random(seed)
    log = tmp_path / "log"
    log.touch()
    with ServerProcess(tmp_path / "data") as server:
        load, workers = Load(server.address, rng), Workers(server.address, log)
        try:
            for _ in range(ROUNDS):
                threading.Event().wait(rng.uniform(0.2, 1.5))
                if rng.random() < 0.5:
                    server.kill()
                    server.start()
                else:
                    workers.kill_one(rng.randrange(WORKERS))
            accepted = load.end()
            while jobs_left(load.client):
                threading.Event().wait(0.01)
            assert load.client.jobs_page(state="dead").jobs == []
        finally:
            load.stop.set()
            workers.close()
            load.client.close()
    judge(log.read_text(encoding="utf-8").splitlines(), accepted)
