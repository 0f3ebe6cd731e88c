"""Jobs by the thousand, with kills, cancellations, retries, repeats and limits, against a model.

Each job has one end, and the right one. `PURGATORY_SECONDS` is how long, 5 by default; `pytest -s`
shows the figures.
"""

import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter, deque
from os import environ

import pyarrow.dataset
import pytest

from purgatory.service import Client, RequestAbandoned
from purgatory.service.server.repeats.repeat_runs import run_id
from tests.purgatory.service.test_load import resources
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

SECONDS = float(environ.get("PURGATORY_SECONDS", "5"))
RATE = 1000  # jobs a second, or what the machine allows
#: Seconds between two kills: of the server, of a worker, and so on.
KILL_S = max(1.0, min(10.0, SECONDS / 4))
WORKERS = 3
#: Of `limited` jobs, together.
RUNNING, PER_SECOND = 4, 200.0
#: A job that is due that much later is cancelled before.
LATER_S = 600.0
TICK_MS = 250
ACTIVE = {"scheduled", "ready", "running", "retrying"}
#: Kinds with their shares, and how their jobs may end if nobody cancels them.
KINDS = {"plain": 0.87, "flaky": 0.05, "poison": 0.01, "limited": 0.04, "later": 0.03}
ENDS = {"plain": "done", "flaky": "done", "poison": "dead", "limited": "done", "tick": "done"}

# Appends a line for each attempt that succeeds.
WORKER = """
import logging, os, signal, sys
from purgatory import Worker

logging.disable()
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
worker = Worker(sys.argv[1], name="jobs", lease=2.0, max_attempts=1000, retry_delay=0.05)

def note(job):
    os.write(log, (job.id + chr(10)).encode())

for kind in ("plain", "limited", "later", "tick"):
    worker.on(kind)(note)

@worker.on("flaky")
def flaky(job):
    if job.attempt == 1:
        raise ValueError("the first attempt")
    note(job)

@worker.on("poison", max_attempts=2)
def poison(job):
    raise ValueError("each attempt")

signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.run()
"""


class JobLoad:
    """Schedules jobs at a rate, and cancels some. Knows how each may end: the model."""

    def __init__(self, client):
        self.client = client
        self.dice = random.Random(38)
        self.scheduled = 0
        self.ends = {}  # by id: the states in which it may end
        self.is_new = {}  # by id: futures of the answers
        self.to_cancel = deque()  # when, id
        self.cancelled = {}  # by id: futures of the answers

    def send(self, count):
        """Schedule up to `count` jobs in all, and cancel those whose time it is."""
        while self.scheduled < count:
            [kind] = self.dice.choices(list(KINDS), KINDS.values())
            self.schedule(kind, f"{kind}-{self.scheduled}")
            self.scheduled += 1
        while self.to_cancel and self.to_cancel[0][0] <= time.monotonic():
            _, job_id = self.to_cancel.popleft()
            self.cancelled[job_id] = self.client.cancel_job_later(job_id)

    def schedule(self, kind, job_id):
        later = kind == "later"
        delay = LATER_S if later else self.dice.choice((0, 0, 0.1, 0.5, 2.0))
        self.is_new[job_id] = self.client.schedule_later(
            delay, kind=kind, job_id=job_id, tags=[kind], unique_for=30
        )
        self.ends[job_id] = {"cancelled"} if later else {ENDS[kind]}
        if later or self.dice.random() < 0.02:
            self.to_cancel.append((time.monotonic() + self.dice.choice((0, 0.2, 1)), job_id))

    def settle(self):
        """Wait for all answers, and learn from those of cancellations."""
        self.send(0)
        while self.to_cancel:
            time.sleep(max(0.0, self.to_cancel[0][0] - time.monotonic()))
            self.send(0)
        for job_id, answer in self.is_new.items():
            try:
                assert answer.result(HANG).is_new, job_id
            except RequestAbandoned:
                self.ends[job_id] |= {"", "cancelled"}
        for job_id, answer in self.cancelled.items():
            self.learn(job_id, answer)

    def learn(self, job_id, answer):
        """Note what a cancellation may have done: a handler that runs may still succeed."""
        kind = job_id.partition("-")[0]
        try:
            was_cancelled = answer.result(HANG)
        except RequestAbandoned:
            self.ends[job_id] |= {"cancelled"}
            return
        if kind == "later":
            assert was_cancelled or "" in self.ends[job_id], job_id
        elif was_cancelled:
            self.ends[job_id] = {"cancelled"} if kind == "poison" else {"cancelled", "done"}


class Workers:
    """Processes that run jobs; now and then one is killed, or told to end."""

    def __init__(self, address, directory):
        self.log = directory / "log"
        self.log.touch()
        self._command = [sys.executable, "-c", WORKER, address, str(self.log)]
        self.processes = [subprocess.Popen(self._command) for _ in range(WORKERS)]

    def turn_over(self, number):
        """End the oldest one by a signal, and start another one."""
        oldest = self.processes.pop(0)
        oldest.send_signal(number)
        oldest.wait(HANG)
        self.processes.append(subprocess.Popen(self._command))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait(HANG)


def run_load(load, serve, workers):
    """Run the load with a kill now and then; returns what memory the servers have had."""
    memory, kills = [], iter(range(10**9))
    start = killed = time.monotonic()
    while (passed := time.monotonic() - start) < SECONDS:
        load.send(min(RATE * passed, load.scheduled + RATE / 10))
        time.sleep(0.005)  # paces the load
        if time.monotonic() - killed < KILL_S:
            continue
        memory.append(resources(serve.process.pid)[0])
        number = next(kills)
        if number % 3 == 0:
            serve.kill()
            serve.start()
        else:
            workers.turn_over((signal.SIGKILL, signal.SIGTERM)[number % 3 - 1])
        killed = time.monotonic()
    load.send(RATE * SECONDS)
    return memory


def active_jobs(client):
    """Return how many jobs have not ended."""
    return sum(count for (_, state), count in client.job_counts().items() if state in ACTIVE)


def read_ends(directory):
    """Return the journal's ends of jobs: id, kind, state, and the times."""
    found = pyarrow.dataset.dataset(
        directory / "journal" / "jobs", format="parquet", partitioning="hive"
    )
    return found.to_table(columns=["job_id", "kind", "state", "began_ms"]).to_pylist()


def check_ends(load, rows, ticks):
    """Compare the journal with the model: each job has one end, one that it may have."""
    counts = Counter(row["job_id"] for row in rows)
    assert [job_id for job_id, count in counts.items() if count > 1] == []
    states = {row["job_id"]: row["state"] for row in rows}
    expected = load.ends | {job_id: {"done"} for job_id in ticks}
    wrong = {
        job_id: (states.get(job_id, ""), ends)
        for job_id, ends in expected.items()
        if states.get(job_id, "") not in ends
    }
    assert wrong == {}
    assert states.keys() - expected.keys() == set()


def most_in_a_second(rows):
    """Return how many limited jobs have begun within a second, at most."""
    times = sorted(row["began_ms"] for row in rows if row["kind"] == "limited" and row["began_ms"])
    window, most = deque(), 0
    for at_ms in times:
        window.append(at_ms)
        while window[0] <= at_ms - 1000:
            window.popleft()
        most = max(most, len(window))
    return most


@pytest.mark.timeout(120 + 3 * SECONDS)
def test_each_job_has_its_end(tmp_path):
    """Whatever is killed: the journal, the states and the counts are those of the model."""
    data = tmp_path / "data"
    with (
        ServerProcess(data, "--journal-seconds", "5") as serve,
        Client(serve.address, name="jobs", timeout=HANG) as client,
        Workers(serve.address, tmp_path) as workers,
    ):
        client.limit("limited", running=RUNNING, per_second=PER_SECOND)
        every = TICK_MS / 1000
        tick = client.repeat("tick", every=every, kind="tick", overlap="allow", missed="all")
        first_ms = round(tick.next.timestamp() * 1000)
        load = JobLoad(client)
        start = time.monotonic()
        memory = run_load(load, serve, workers)
        load.settle()
        took = time.monotonic() - start
        last_ms = round(next(iter(client.repeats())).next.timestamp() * 1000)
        tick.delete()
        eventually(lambda: not active_jobs(client))
        counts = client.job_counts()
        dead = sum(ends == {"dead"} for ends in load.ends.values())
        assert counts.get(("poison", "dead"), 0) == dead
        for job_id in list(load.ends)[-200:]:
            assert client.job(job_id).state in load.ends[job_id]
        assert serve.end() == (0, "")
        rows = read_ends(data)
        ticks = {row["job_id"] for row in rows if row["kind"] == "tick"}
        due = {run_id("tick", at_ms) for at_ms in range(first_ms, last_ms, TICK_MS)}
        # Some may have come before the repeat was deleted.
        since = {run_id("tick", last_ms + number * TICK_MS) for number in range(400)}
        assert due <= ticks <= due | since
        check_ends(load, rows, ticks)
        lines = workers.log.read_text(encoding="ascii").split()
        done = {row["job_id"] for row in rows if row["state"] == "done"}
        assert done <= set(lines)
        most = most_in_a_second(rows)
        third = len(memory) // 3
        thirds = [statistics.median(memory[n * third : (n + 1) * third] or [0]) for n in range(3)]
        states = [row["state"] for row in rows]
        sys.stdout.write(
            f"\n{load.scheduled / took:,.0f} jobs/s for {took:.0f} s, {len(due)} ticks, "
            f"{len(memory)} kills; {dict(Counter(states))}; handlers that ran "
            f"again: {len(lines) - len(set(lines))}; limited jobs in a second: {most}; "
            f"MB of the server by thirds: {[round(one / 1e6) for one in thirds]}\n"
        )
        assert most <= 2 * PER_SECOND + RUNNING
        if SECONDS >= 60:
            assert thirds[2] < 1.2 * thirds[1] + 16e6
