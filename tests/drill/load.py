"""The load of a drill: clients that submit, complete, extend, hold, cancel, lease and run jobs.

Each kind of call has a thread. All of them note in the books what they ask for before they ask, and
what is acknowledged when the answer comes.
"""

import faulthandler
import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

from purgatory import OperationCancelled, OperationExpired
from purgatory.service import (
    Client,
    JobCancelled,
    RequestTimeout,
    ServiceError,
    encoding,
    protocol,
)
from purgatory.service.protocol import OutcomeMessage
from tests.drill.books import Books, Held, Operation, Seen
from tests.drill.clock import now
from tests.drill.job_entry import JobEntry, Run
from tests.drill.watched_worker import WatchedWorker

#: Seconds that a client waits for an answer: longer than any fault lasts.
PATIENCE_S = 120.0
#: Seconds of an operation's timeout, at most; and what an extension adds.
LONGEST_S = 5.0
_KINDS_OF_CALL = ("complete", "extend", "cancel", "hold", "none")


def spy_on_outcomes(books: Books) -> Callable[[], None]:
    """Have each outcome that a client of this process receives noted; returns the undo."""
    decode = encoding.decode_answer

    def spy(frame: bytes) -> object:
        message = decode(frame)
        if isinstance(message, protocol.Outcomes):
            at = now()
            for each in message.outcomes:
                result = encoding.unpack_or_raw(each.result)
                books.outcome(each.op_id, Seen(each.number, each.outcome, each.at_ms), at, result)
        return message

    encoding.decode_answer = spy

    def undo() -> None:
        encoding.decode_answer = decode

    return undo


def state_of(client: Client) -> str:
    """Return where a client is connected, and what it has asked for in vain."""
    session, server = client._session, client._io_thread._connection._route.current
    asked = [
        f"{seq}: {batch.request.__name__} {batch.calls[:3]}"
        for seq, (_, batch) in list(session._unanswered.items())
    ]
    return (
        f"client {client.name!r} at {server}, welcome: {session.welcome}, "
        f"unsent: {len(session._unsent.batches)}, unanswered: {asked}"
    )


class Load:
    """Clients of the servers at `address`. One thread starts and ends it."""

    def __init__(self, address: str, books: Books, seed: int, *, pace_s: float = 0.1) -> None:
        self.books = books
        self._address = address
        self._random = random.Random(seed)
        self._pace_s = pace_s
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self._undo = spy_on_outcomes(books)
        self.owner = Client(address, name="owner", timeout=PATIENCE_S, on_outcome=_acknowledge)
        self.other = Client(address, name="other", timeout=PATIENCE_S)
        self.workers = [self._make_worker(f"worker-{n}") for n in range(2)]
        self._threads = [
            threading.Thread(target=self._run, args=(call,), name=call.__name__)
            for call in (self._pulse, self._operations, self._jobs, *[self._lease] * 4)
        ]
        #: What ended a thread of the load.
        self.failures: list[BaseException] = []

    def start(self) -> None:
        """Begin."""
        for worker in self.workers:
            worker.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the calls, wait until all is answered and has ended, and note what has."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} hangs"
        for client in (self.owner, self.other):
            try:
                client.flush(PATIENCE_S)
            except RequestTimeout as error:
                faulthandler.dump_traceback(all_threads=True)
                raise AssertionError(state_of(client)) from error
        self._wait_for_ends()
        self._read_jobs()

    def close(self) -> None:
        """End the clients."""
        self._stop.set()
        for worker in self.workers:
            worker.stop(5)
        for worker in self.workers:
            worker.wait(30)
        self.owner.close(1)
        self.other.close(1)
        self._undo()

    def _run(self, call: Callable[[random.Random], None]) -> None:
        dice = random.Random(self._random.random())
        try:
            while not self._stop.is_set():
                call(dice)
        except Exception as error:
            self.failures.append(error)

    # Operations.

    def _pulse(self, dice: random.Random) -> None:
        """Submit something small, all the time: the first answer shows that a server is there."""
        op_id = f"pulse-{next(self._numbers)}"
        self._submit(op_id, ("never",), dice.uniform(0.2, 2.0))
        self._stop.wait(self._pace_s / 2)

    def _submit(self, op_id: str, keys: tuple[str, ...], timeout: float) -> Operation:
        entry = Operation(op_id, now(), timeout)
        self.books.operations[op_id] = entry
        future = self.owner.submit_later(*keys, timeout=timeout, op_id=op_id)
        future.add_done_callback(lambda done: self._on_submitted(entry, done))
        return entry

    def _on_submitted(self, entry: Operation, future: "Future[object]") -> None:
        if _answer(future) is not None:
            entry.acked_at = now()
            self.books.acks.append((entry.called_at, entry.acked_at))

    def _operations(self, dice: random.Random) -> None:
        for _ in range(dice.choice((1, 3, 20))):
            number = next(self._numbers)
            op_id, key = f"op-{number}", f"key-{number}"
            call = dice.choice(_KINDS_OF_CALL)
            if call == "hold":
                self._hold(number, key)
            entry = self._submit(op_id, (key, "never"), dice.uniform(0.0, LONGEST_S))
            if call == "complete":
                self._complete(entry, key, number)
            elif call == "extend":
                self._extend(entry)
            elif call == "cancel":
                future = self.other.cancel_later(op_id)
                future.add_done_callback(lambda done, e=entry: _set(e, "cancelled", done))
        self._stop.wait(dice.uniform(0, 2 * self._pace_s))

    def _complete(self, entry: Operation, key: str, value: int) -> None:
        entry.event = value
        future = self.other.complete_later(key, value)
        future.add_done_callback(lambda done: _set(entry, "event_count", done))

    def _extend(self, entry: Operation) -> None:
        entry.extended_by, entry.extended_at = LONGEST_S, now()
        future = self.other.extend_later(entry.op_id, LONGEST_S)
        future.add_done_callback(lambda done: _set(entry, "extended", done))

    def _hold(self, number: int, key: str) -> None:
        """Hold an event, and submit once it is held: the operation has to complete by it."""

        def submit(done: "Future[int]") -> None:
            if _answer(done) is not None and not self._stop.is_set():
                entry = self._submit(f"held-{number}", (f"held {key}", "never"), LONGEST_S)
                entry.event, entry.event_count = number, 1

        future = self.other.complete_later(f"held {key}", number, limit=1, hold=600.0)
        future.add_done_callback(submit)

    def _wait_for_ends(self) -> None:
        """Return when each operation has ended that was acknowledged, or will not any more."""
        deadline = now() + 4 * LONGEST_S
        while now() < deadline and any(
            one.acked_at is not None and not one.seen for one in self.books.operations.values()
        ):
            threading.Event().wait(0.05)

    # Jobs.

    def _make_worker(self, label: str) -> WatchedWorker:
        worker = WatchedWorker(
            self._address,
            self.books.jobs,
            label,
            name="owner",
            concurrency=4,
            lease=2.0,
            max_attempts=1000,
            retry_delay=0.1,
            timeout=PATIENCE_S,
        )

        @worker.on("drill")
        def handle(job) -> int:
            began_at = now()
            self._stop_or(job.payload)
            self.books.jobs[job.id].runs.append(Run(job.token, began_at, now(), label))
            return job.token

        return worker

    def _stop_or(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def _jobs(self, dice: random.Random) -> None:
        job_id = f"job-{next(self._numbers)}"
        entry = self.books.jobs[job_id] = JobEntry(job_id)
        seconds = dice.choice((0.0, 0.05, 0.5, 3.0))
        future = self.owner.schedule_later(
            dice.uniform(0, 2), kind="drill", payload=seconds, job_id=job_id
        )
        future.add_done_callback(lambda done: self._on_scheduled(entry, done))
        self._stop.wait(dice.uniform(0.1, 0.5))

    def _on_scheduled(self, entry: JobEntry, future: "Future[object]") -> None:
        if _answer(future) is not None:
            entry.acked_at = now()

    def _read_jobs(self) -> None:
        """Note how each job has ended."""
        for entry in self.books.jobs.values():
            if entry.acked_at is None:
                continue
            try:
                entry.result = self.other.result(entry.job_id, 60)
                entry.state = "done"
            except (JobCancelled, ServiceError, TimeoutError) as error:
                entry.state = f"{type(error).__name__}: {error}"

    # Named leases.

    def _lease(self, dice: random.Random) -> None:
        name = dice.choice(("lease-a", "lease-b"))
        client = dice.choice((self.owner, self.other))
        try:
            with client.lease(name, keep=1.5, timeout=30) as lease:
                kept = lease._kept
                began_at = now()
                lease.lost.wait(dice.uniform(0.0, 1.0))
                ended_at = min(now(), kept.ends_at)
                self.books.held.append(Held(name, lease.token, began_at, ended_at))
        except ServiceError:  # refused, or not answered: it has no lease
            pass
        self._stop.wait(dice.uniform(0, 0.2))


def _acknowledge(outcome: OutcomeMessage) -> None:
    """Take an outcome that no future waits for: the spy has noted it."""


def _answer(future: "Future[object]") -> object:
    """Return what a call was answered with; None if that is not known."""
    try:
        return future.result()
    except (ServiceError, OperationCancelled, OperationExpired):
        return None


def _set(entry: Operation, name: str, future: "Future[object]") -> None:
    setattr(entry, name, _answer(future))
