"""LeaseCheck: compares the leases of a server with the model's, after each transaction."""

from collections.abc import Callable
from typing import Any

import msgspec

from purgatory.service.job_messages import Begin
from purgatory.service.protocol import Jobs, Keep, Work, Working
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.leases.job_leases import MAX_ASSIGNED
from purgatory.service.server.leases.job_times import LATE_MS
from purgatory.service.server.state import ServerState
from purgatory.service.server.store_loop import GRACE_MS
from purgatory.service.server.transactions.transaction import Transaction
from tests.simulation.model.model_leases import ModelJob
from tests.simulation.model.server_model import ServerModel

JOBS_TAG = 66
_JOBS = msgspec.msgpack.Decoder(Jobs)
#: Requests about leases that change memory alone.
IN_MEMORY = (Work, Keep, Begin)


class LeaseCheck:
    """Compares the leases of `state`; `fail` is told of differences."""

    def __init__(self, model: ServerModel, state: ServerState, fail: Callable[[str], None]) -> None:
        self._model = model.leases
        self._state = state
        self._leases = state.leases
        self._fail = fail
        self._looked_ms = 0  # the last transaction that could end leases

    def do_in_memory(self, command: ClientRequest, now_ms: int) -> Any:
        """Carry out a request that changes memory alone; returns its answer, if any."""
        request, model = command.request, self._model
        if isinstance(request, Work):
            model.work(command.route, command.client, request)
            return Working(request.seq)
        if isinstance(request, Keep):
            return model.keep(command.client, request, now_ms)
        assert isinstance(request, Begin)
        model.begin(command.client, request)
        return None

    def lapse(self, transaction: Transaction, *, looks: bool) -> None:
        """End the leases that the server has ended by time; they must be over, for a while at most.

        The server has its reasons to wait a little: requests that it has not looked at, and its own
        absence. `looks`: whether it looks for leases that are over; not while its disk fails.
        """
        now_ms = transaction.clock_ms
        absent_ms = now_ms - self._looked_ms
        self._looked_ms = now_ms if looks else self._looked_ms
        for job in self._held():
            due = self._leases.by_number.get(job.operation.seq)
            if due is not None and due.until_ms != job.until_ms and due.token == job.token:
                if not 0 < due.until_ms - job.until_ms <= absent_ms or absent_ms <= LATE_MS:
                    self._fail(f"a lease lasts until {due.until_ms}; expected {job}")
                job.until_ms = due.until_ms
            if job.operation.op_id in self._model.changed:
                continue
            if due is None or due.holder is None or due.token != job.token:
                if job.until_ms > now_ms:
                    self._fail(f"a lease has ended by time at {now_ms}: {job}")
                self._model.lose(job, by_time=True)
            elif looks and job.until_ms + GRACE_MS < now_ms - absent_ms:
                self._fail(f"a lease is over at {now_ms}, and lasts: {job}")

    def _held(self) -> list[ModelJob]:
        return [job for job in self._model.jobs.values() if job.worker is not None]

    def doubt(self, now_ms: int) -> None:
        """Note which attempts may have ended by time in a commit of which nobody knows."""
        for job in self._held():
            job.may_be_lost = job.has_begun and job.until_ms <= now_ms
        self._model.publish()

    def check_given(self, replies: list[tuple[bytes, bytes]], now_ms: int) -> None:
        """Check the jobs that are leased, and that none is left that could be."""
        given = [
            (message.token, route, message)
            for route, frame in replies
            if frame[1] == JOBS_TAG
            for message in _JOBS.decode(frame).jobs
        ]
        for _, route, message in sorted(given, key=lambda one: one[0]):
            why = self._model.give(route, message, now_ms)
            if why:
                self._fail(f"leases {message}: {why}")
        if len(given) >= MAX_ASSIGNED or self._state.unnoted or not self._model.jobs:
            return
        if job := self._model.idle(now_ms):
            self._fail(f"is ready at {now_ms}, and a worker has room for it: {job}")
