"""JobRequests: carries out the requests of workers. Store thread alone."""

from typing import Final

from purgatory.service.errors import Malformed, TooLarge, TooManyItems
from purgatory.service.job_messages import Begin
from purgatory.service.protocol import (
    MAX_ROOM,
    Finish,
    Finished,
    How,
    Keep,
    Kept,
    LeaseEnd,
    Work,
    Working,
)
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.leases.job_leases import JobLeases
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator

#: The shortest lease; the most kinds of a connection.
MIN_LEASE_MS: Final = 100
MAX_KINDS: Final = 1000
_MAX_ATTEMPTS: Final = 1 << 31
_HOWS: Final = frozenset(How)


class JobRequests:
    """Carries out requests, or raises `Refused`."""

    def __init__(self, leases: JobLeases, validator: RequestValidator) -> None:
        self._leases = leases
        self._validator = validator

    def work(self, _: Transaction, command: ClientRequest, request: Work) -> Working:
        """Note which jobs a worker wants."""
        self._check_work(request)
        self._leases.worker(command.route, command.client).ask(request)
        return Working(request.seq)

    def keep(self, transaction: Transaction, command: ClientRequest, request: Keep) -> Kept:
        """Extend leases."""
        client, leases, now_ms = command.client, self._leases, transaction.clock_ms
        jobs = [leases.keep(client, one.number, one.token, now_ms) for one in request.leases]
        cancelled = [at for at, job in enumerate(jobs) if job is not None and job.is_cancelled]
        return Kept(request.seq, [job is not None for job in jobs], cancelled)

    def begin(self, transaction: Transaction, command: ClientRequest, request: Begin) -> None:
        """Note that handlers have begun."""
        for lease in request.leases:
            self._leases.begin(command.client, lease.number, lease.token, transaction.clock_ms)

    def finish(self, transaction: Transaction, command: ClientRequest, request: Finish) -> Finished:
        """End leases."""
        ends = transaction.jobs.lease_ends
        for end in request.ends:
            self._check_end(end)
        return Finished(request.seq, [ends.finish(command.client, end) for end in request.ends])

    def _check_work(self, request: Work) -> None:
        if not 0 <= request.room <= MAX_ROOM:
            raise TooManyItems(f"room is {request.room}; expected 0 to {MAX_ROOM}")
        self._validator.check_period(request.lease_ms, "lease", MIN_LEASE_MS)
        if len(request.kinds) > MAX_KINDS:
            raise TooManyItems(f"{len(request.kinds)} kinds; expected at most {MAX_KINDS}")
        for kind, attempts in request.kinds.items():
            self._validator.check_text(kind, empty=True)
            if not 1 <= attempts <= _MAX_ATTEMPTS:
                raise Malformed(f"attempts of {kind!r} are {attempts}; expected 1 or more")
        for kind, room in request.kind_rooms.items():
            if kind not in request.kinds or not 0 <= room <= MAX_ROOM:
                raise Malformed(f"the room for {kind!r} is {room}; expected 0 to {MAX_ROOM}, "
                                "for a kind that the worker asks for")  # fmt: skip

    def _check_end(self, end: LeaseEnd) -> None:
        if end.how not in _HOWS:
            raise Malformed(f"how is {end.how}; expected one of {sorted(_HOWS)}")
        limits = self._validator.limits
        self._validator.check_period(end.delay_ms, "delay")
        if len(end.error) > limits.payload_bytes:
            raise TooLarge(f"an error of {len(end.error)} characters; "
                           f"expected at most {limits.payload_bytes}")  # fmt: skip
        self._validator.check_value("result", end.result)
