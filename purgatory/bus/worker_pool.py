"""WorkerPool: the threads running expired tasks, fed through ypipes.

Each worker owns a mailbox and the reading end of a ypipe. The thread that drains the timer writes a
bucket to the least loaded worker's pipe, a large bucket to several, and flushes once a batch. A
sleeping worker gets one `Activate`.

A worker that has been in one task for `SLOW_TASK_S` is *relieved*: another worker gets its batches
as well. The loop looks for slow workers, or the thread that waits for the ends.

Shutdown is ZeroMQ's handshake: `Term` to every worker, behind all batches, and `TermAck` from each
when it has finished them.
"""

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from _purgatory_cpython import at_exit
from mq import Mailbox, MailboxClosed, YPipe
from purgatory.bus.commands import Activate, ExpiredBatch, Term, TermAck, WorkerCommand
from timingwheel.lowlevel import SLOW_TASK_S, InterruptibleThread, is_owned, new_rlock, real_seconds

Run = Callable[[Any], object]

TASKS_PER_WORKER = 1024  # a larger bucket is worth another worker


class PoolWorker(InterruptibleThread):
    """A thread of a `WorkerPool`, which locks `write` and `flush`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._mailbox: Mailbox[WorkerCommand] = Mailbox()
        self._pipe: YPipe[ExpiredBatch] = YPipe()
        self._finished = 0  # batches; a batch may count twice
        # Written and not finished; the worker continues from here after an exception.
        self._unfinished: deque[ExpiredBatch] = deque()
        # Batches finished and tasks left, as the loop saw them, and since when.
        self._seen = (0, 0)
        self._seen_s = 0.0
        self.relieved: bool = False  # until it becomes idle
        self._term: Term | None = None
        self._is_stopping = False

    @property
    def load(self) -> int:
        """How many batches wait or run here; approximate."""
        return len(self._unfinished)

    def is_slow(self, now_s: float) -> bool:
        """Whether the worker has been in one task for `SLOW_TASK_S` since the first look."""
        try:
            seen = (self._finished, len(self._unfinished[0].bucket))
        except IndexError:  # the last batch is finished
            return False
        if seen != self._seen:
            self._seen, self._seen_s = seen, now_s
        return now_s - self._seen_s >= SLOW_TASK_S

    def write(self, batch: ExpiredBatch) -> None:
        """Queue a batch; the worker sees it from the next `flush` on."""
        if not self.load:
            self.relieved = False
        self._unfinished.append(batch)
        self._pipe.write(batch)

    def flush(self) -> None:
        """Show the worker the written batches; wake it if asleep."""
        if not (sys.is_finalizing() or self._pipe.flush()):
            with contextlib.suppress(MailboxClosed):  # it has ended
                self._mailbox.send(Activate())

    def term(self, reply_to: "Mailbox[TermAck]") -> None:
        """Ask the worker to end behind its batches."""
        self._term = Term(reply_to)
        with contextlib.suppress(MailboxClosed):  # it saw the flag and ended
            self._mailbox.send(self._term)

    def stop(self) -> None:
        """Ask the worker to end after its present task."""
        self._is_stopping = True
        for batch in tuple(self._unfinished)[:1]:
            batch.bucket.take_over()
        with contextlib.suppress(MailboxClosed):  # it has ended
            self._mailbox.send(Activate())

    def run(self) -> None:
        """Run batches until the end, despite exceptions from other threads."""
        try:
            while True:
                try:
                    self._work()
                    return
                except BaseException:  # noqa: BLE001
                    continue
        except BaseException:  # noqa: BLE001  # another, meanwhile
            self.run()

    def _work(self) -> None:
        for batch in list(self._unfinished):  # left by an exception
            self._run_batch(batch)
        # A new pipe takes its reader for awake: read before the first sleep.
        while self._term is None and not self._is_stopping:
            self._run_batches()
            if self._term is None and not self._is_stopping:
                self._mailbox.recv()
        self._run_batches()  # Term comes behind the last flush
        if self._term is not None:
            with contextlib.suppress(MailboxClosed):
                self._term.reply_to.send(TermAck(self.name))
        self._mailbox.close()

    def _run_batches(self) -> None:
        while not self._is_stopping and self._pipe.check_read():
            self._run_batch(self._pipe.read())

    def _run_batch(self, batch: ExpiredBatch) -> None:
        batch.run(batch.bucket)
        self._finished += 1
        with contextlib.suppress(ValueError):  # it ran twice
            self._unfinished.remove(batch)


class WorkerPool:
    """`count` threads, started with the first bucket. An executor for `Timer`; any thread.

    `most`: of threads while others are in slow tasks.
    """

    def __init__(self, name: str, count: int, most: int = 0) -> None:
        self._name = name
        self._count = count
        self._most = max(count, most)
        # Guards all fields below, and the writing ends of ypipes. Re-entrant: a finalizer may add a
        # due task.
        self._lock = new_rlock()
        self._workers: list[PoolWorker] = []
        self._unflushed: dict[PoolWorker, None] = {}  # a set has no order
        self._closed = False
        self._is_stopping = False  # the interpreter exits
        # Of the thread that closes the pool first.
        self._acks: Mailbox[TermAck] | None = None

    def execute(self, run: Run, bucket: Any) -> None:
        """Write a bucket to one or more workers; after `close`, run it here."""
        with self._lock:
            closed = self._closed or self._is_stopping or sys.is_finalizing()
            if not closed:
                self._start_workers()
                for worker in self._least_loaded(1 + len(bucket) // TASKS_PER_WORKER):
                    self._unflushed[worker] = None
                    worker.write(ExpiredBatch(run, bucket))
        if closed:
            run(bucket)

    def flush(self) -> None:
        """See `PoolWorker.flush`."""
        if not self._unflushed:
            return
        with self._lock:
            for worker in tuple(self._unflushed):
                worker.flush()
                self._unflushed.pop(worker, None)

    def resume(self) -> None:
        """Flush after an interrupt."""
        self.flush()

    def relieve(self) -> float | None:
        """Relieve slow workers. Returns the seconds until the next look; None: all are idle."""
        return None if self._closed else self._relieve_slow()

    def _relieve_slow(self) -> float | None:
        if self._most == 1 or self._is_stopping or not self._busy():
            return None
        with self._lock:
            now_s = real_seconds()
            for worker in self._busy():
                if worker.is_slow(now_s):
                    self._relieve(worker)
        self.flush()
        return SLOW_TASK_S

    def _busy(self) -> list[PoolWorker]:
        return [worker for worker in self._workers if worker.load and not worker.relieved]

    def _relieve(self, slow: PoolWorker) -> None:
        """Write a worker's batches to another, if any. Locked."""
        other = self._idle_worker()
        if other is None:
            return
        slow.relieved = True
        self._unflushed[other] = None
        for batch in tuple(slow._unfinished):
            other.write(batch)
        if self._acks is not None:  # closed: the other worker is new
            self.flush()
            other.term(self._acks)

    def _idle_worker(self) -> PoolWorker | None:
        for worker in self._workers:
            if not worker.load and not self._closed:
                return worker
        if len(self._workers) >= self._most:
            return None
        try:
            return self._start_worker()
        except RuntimeError:  # no thread is left: the batches wait
            return None

    def holds_lock(self) -> bool:
        """See `LockingExecutor`."""
        return is_owned(self._lock)

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Let the workers finish their batches; with `wait`, wait up to `timeout` seconds."""
        close_deadline = None if timeout is None else real_seconds() + timeout
        with self._lock:
            self.flush()  # Term comes behind all that was written
            workers = [worker for worker in self._workers if worker.is_alive()]
            acks: Mailbox[TermAck] | None = None
            if not self._closed:
                self._closed = True
                self._acks = acks = Mailbox()
        # Workers do not wait for each other.
        wait = wait and threading.current_thread() not in workers
        if acks is not None:
            self._term(workers, acks, close_deadline if wait else 0.0)
        if wait:
            self._join(close_deadline)

    def _term(
        self, workers: list[PoolWorker], acks: "Mailbox[TermAck]", close_deadline: float | None
    ) -> None:
        for worker in workers:
            worker.term(acks)
        for _ in workers:
            if self._next_ack(acks, close_deadline) is None:
                break
        acks.close()

    def _next_ack(self, acks: "Mailbox[TermAck]", close_deadline: float | None) -> TermAck | None:
        while True:
            left = _remaining(close_deadline)
            ack = acks.recv(shorter(left, self._relieve_slow()))
            if ack is not None or left == 0:
                return ack

    def stop_at_exit(self) -> None:
        """Let the workers end after their present tasks."""
        self._is_stopping = True
        for worker in tuple(self._workers):
            worker.stop()

    def join(self, timeout: float | None) -> None:
        """Wait for the ends of the workers, up to `timeout` seconds."""
        self._join(None if timeout is None else real_seconds() + timeout)

    def _join(self, close_deadline: float | None) -> None:
        while alive := [worker for worker in tuple(self._workers) if worker.is_alive()]:
            left = _remaining(close_deadline)
            if left == 0:
                return
            alive[0].join(shorter(left, self._relieve_slow()))

    def _start_workers(self) -> None:
        try:
            while len(self._workers) < self._count:
                self._start_worker()
        except RuntimeError:  # no thread is left: those that run get the batches
            if not self._workers:
                raise

    def _start_worker(self) -> PoolWorker:
        number = len(self._workers)
        suffix = f"-{number}" if self._count > 1 or number else ""
        worker = PoolWorker(f"{self._name}-executor{suffix}")
        worker.start()
        self._workers.append(worker)
        at_exit.register(self)
        return worker

    def _least_loaded(self, count: int) -> list[PoolWorker]:
        if len(self._workers) == 1:
            return self._workers
        by_load = sorted(self._workers, key=lambda worker: (worker.relieved, worker.load))
        return by_load[: min(count, self._count)]


def _remaining(close_deadline: float | None) -> float | None:
    return None if close_deadline is None else max(0.0, close_deadline - real_seconds())


def shorter(one: float | None, other: float | None) -> float | None:
    """Return the shorter timeout; None is endless."""
    return other if one is None else one if other is None else min(one, other)
