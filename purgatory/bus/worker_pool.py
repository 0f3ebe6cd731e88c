"""WorkerPool: the threads that run expired tasks, fed through ypipes.

An executor for a Timer. Each worker owns a mailbox and the reading end of a ypipe. Who drains the
timer writes a bucket to the pipe of the worker that has least to do, a large bucket to several of
them, and flushes once at the end: a worker that is busy is not disturbed, one that sleeps gets one
`Activate`.

Shutdown is the own tree's handshake: `Term` to every worker, behind all that was handed over, and
`TermAck` from each when that is finished.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from mq import Mailbox, YPipe
from purgatory.bus.commands import Activate, ExpiredBatch, Term, TermAck, WorkerCommand

Run = Callable[[Any], object]

# A bucket of more tasks than this is worth another worker.
TASKS_PER_WORKER = 1024


class Worker:
    """One thread. ``write`` and ``flush`` are called under the lock of `WorkerPool`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._mailbox: Mailbox[WorkerCommand] = Mailbox()
        self._pipe: YPipe[ExpiredBatch] = YPipe()
        self._written = 0  # batches; the writer's
        self._finished = 0  # batches; the worker's
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def load(self) -> int:
        """How many batches wait or run here; a guess, good enough to choose by."""
        return self._written - self._finished

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, batch: ExpiredBatch) -> None:
        """Hand over, from the next `flush` on."""
        self._pipe.write(batch)
        self._written += 1

    def flush(self) -> None:
        """Let the worker see what was written; wake it if it sleeps."""
        if not self._pipe.flush():
            self._mailbox.send(Activate())

    def term(self, reply_to: "Mailbox[TermAck]") -> None:
        """Ask it to end once its pipe is empty."""
        self._mailbox.send(Term(reply_to))

    def is_here(self) -> bool:
        """Whether this is the calling thread."""
        return self._thread is threading.current_thread()

    def join(self, timeout: float | None) -> None:
        """Wait for the thread."""
        self._thread.join(timeout)

    def _run(self) -> None:
        # A new pipe counts its reader as awake: look before the first sleep.
        command: WorkerCommand | None = None
        while not isinstance(command, Term):
            self._run_batches()
            command = self._mailbox.recv()
        self._run_batches()  # Term came behind the last flush
        command.reply_to.send(TermAck(self.name))
        self._mailbox.close()

    def _run_batches(self) -> None:
        while self._pipe.check_read():
            batch = self._pipe.read()
            batch.run(batch.bucket)
            self._finished += 1
            del batch  # or the last one would be kept until the next comes


class WorkerPool:
    """``count`` threads, started with the first bucket. An executor for `Timer`; any thread."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        # Guards all below, and is the one writer that a ypipe allows. May be taken again by the
        # thread that has it: a finalizer may add a task that is due.
        self._lock = threading.RLock()
        self._workers: list[Worker] = []
        self._unflushed: set[Worker] = set()
        self._closed = False

    def execute(self, run: Run, bucket: Any) -> None:
        """Write a bucket to one or more workers; `flush` shows it to them.

        After `close` it is run by the caller: nothing due is lost.
        """
        with self._lock:
            closed = self._closed
            if not closed:
                self._start()
                for worker in self._least_loaded(1 + len(bucket) // TASKS_PER_WORKER):
                    self._unflushed.add(worker)
                    worker.write(ExpiredBatch(run, bucket))
        if closed:
            run(bucket)

    def flush(self) -> None:
        """Let the workers see what was written."""
        if not self._unflushed:
            return
        with self._lock:
            for worker in tuple(self._unflushed):
                worker.flush()
                self._unflushed.discard(worker)

    def resume(self) -> None:
        """Show what an interrupt kept from being shown."""
        self.flush()

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Let the workers finish what they have; with ``wait``, for ``timeout`` seconds at most."""
        self.flush()
        close_deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            workers = list(self._workers)
            first, self._closed = not self._closed, True
        # A worker does not wait for workers: one of them may be waiting for it.
        wait = wait and not any(worker.is_here() for worker in workers)
        if first:
            self._term(workers, close_deadline if wait else 0.0)
        if wait:
            for worker in workers:
                worker.join(_remaining(close_deadline))

    def _start(self) -> None:
        for number in range(len(self._workers), self._count):
            suffix = f"-{number}" if self._count > 1 else ""
            worker = Worker(f"{self._name}-executor{suffix}")
            worker.start()
            self._workers.append(worker)

    def _least_loaded(self, count: int) -> list[Worker]:
        if self._count == 1:
            return self._workers
        return sorted(self._workers, key=lambda worker: worker.load)[:count]

    def _term(self, workers: list[Worker], close_deadline: float | None) -> None:
        """Shake hands: Term to each, TermAck from each that is done in time."""
        acks: Mailbox[TermAck] = Mailbox()
        for worker in workers:
            worker.term(acks)
        for _ in workers:
            if acks.recv(_remaining(close_deadline)) is None:
                return


def _remaining(close_deadline: float | None) -> float | None:
    return None if close_deadline is None else max(0.0, close_deadline - time.monotonic())
