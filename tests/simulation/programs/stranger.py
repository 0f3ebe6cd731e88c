"""Stranger: a peer that asks the server for what no client asks: with numbers out of all bounds.

Each request has to be refused for what it says. The server must not call any its own fault.
"""

import random
from collections.abc import Callable
from typing import Any, Final

import zmq

from purgatory.service.encoding import decode_answer, encode
from purgatory.service.errors import RequestFailed
from purgatory.service.job_messages import JobFilter, ListJobs, RetryJobs, TakeLease
from purgatory.service.protocol import (
    VERSION,
    Acknowledge,
    Bye,
    Complete,
    Completion,
    Failure,
    Finish,
    Hello,
    How,
    Keep,
    Lease,
    LeaseEnd,
    ReadOperations,
    Request,
    Submission,
    Submit,
    Work,
)
from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.sockets import SimulatedDealer
from purgatory.testing.world.world import NS_PER_S, World

NAME: Final = "stranger"
# Nanoseconds between two visits, and for how long one waits for its answers.
_PAUSE_NS: Final = 3 * NS_PER_S
_VISIT_NS: Final = NS_PER_S
_IN_RANGE: Final = (-(2**63), 2**63 - 1)
_NUMBERS: Final = (*_IN_RANGE, 2**63, 2**64 - 1)


class Stranger:
    """Visits the server of a world again and again; `report` is told of broken promises.

    It draws by itself: a world without it is as it was.
    """

    def __init__(
        self, world: World, network: SimulatedNetwork, report: Callable[[str], None]
    ) -> None:
        self._world = world
        self._network = network
        self._report = report
        self._random = random.Random(world.seed)
        self._asked: dict[int, Request] = {}
        #: How many of its requests were refused.
        self.refused: int = 0
        self._world.after(_PAUSE_NS, self._visit)

    def _visit(self) -> None:
        socket = SimulatedDealer(NAME, Descriptors(), self._network)
        socket.connect(ADDRESS)
        self._world.after(_VISIT_NS // 2, lambda: self._ask(socket))
        self._world.after(_VISIT_NS, lambda: self._leave(socket))
        self._world.after(_PAUSE_NS, self._visit)

    def _ask(self, socket: SimulatedDealer) -> None:
        number = self._random.choice(_NUMBERS)
        requests = hostile_requests(number)
        self._asked = {request.seq: request for request in requests}
        self._world.note(f"{NAME}: sends requests with {number}")
        try:
            for request in (Hello(0, VERSION, NAME), *requests):
                socket.send(encode(request), 0)
        except zmq.Again:
            pass  # no connection was made

    def _leave(self, socket: SimulatedDealer) -> None:
        try:
            while True:
                self._take(decode_answer(socket.recv(0)))
        except zmq.Again:
            socket.close()

    def _take(self, answer: Any) -> None:
        if isinstance(answer, Failure):
            self.refused += 1
            if answer.code == RequestFailed.code:
                self._report(f"{answer.message} for {self._asked.get(answer.seq or 0)}")


def hostile_requests(number: int) -> list[Request]:
    """Return requests in which a number goes to a table or a clock.

    Reads for any; for a number that the protocol has no room for, changes, too.
    """
    lease = Lease(number, number)
    reads = [
        ReadOperations(1, number, abs(number)),
        ListJobs(2, JobFilter(state="dead")),
        ListJobs(3, JobFilter(), "due", 10, (number, number)),
    ]
    if number in _IN_RANGE:
        return [*reads, Bye(4)]
    return [
        *reads,
        Submit(4, [Submission("hostile", ("hostile",), number)]),
        Complete(5, [Completion("hostile", limit=number, hold_ms=number)]),
        Acknowledge(6, [number]),
        RetryJobs(7, [f"{number}"]),
        Keep(8, [lease]),
        Finish(9, [LeaseEnd(number, number, How.DONE)]),
        Work(10, {"": number}, number, number),
        TakeLease(11, "hostile", NAME, number, number),
        Bye(12),
    ]
