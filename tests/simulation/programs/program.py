"""Program: a client process that submits operations, completes keys, and takes outcomes, at random.

It tells the oracle what it asks for and what it is told. It can be killed and started again, under
its name; outcomes of what it submitted before then come to its handler.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.client.client import Client
from purgatory.service.errors import OperationFailed, Refused, RequestTimeout, Unavailable
from purgatory.service.protocol import OutcomeMessage
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S
from tests.simulation.oracle import Oracle
from tests.simulation.programs.recent import Recent
from tests.simulation.programs.workload import Workload
from tests.simulation.records import CallRecord, EventRecord, ExtensionRecord, OperationRecord

# For so long an operation is known to the server at least after its outcome was told.
_KNOWN_NS = 500 * NS_PER_S
# How long a client waits for an answer, by default.
_TIMEOUT_NS = 30 * NS_PER_S


class HandlerError(Exception):
    """What the handler of outcomes raises now and then."""


class Program:
    """The client `name` on a machine."""

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        name: str,
        oracle: Oracle,
        workload: Workload,
    ) -> None:
        self.name = name
        self.machine = machine
        self._world = machine.world
        self._network = network
        self._oracle = oracle
        self._workload = workload
        self._actions: list[Callable[[], None]] = [
            getattr(self, f"_{name}") for name in workload.weights
        ]
        self._weights = list(accumulate(workload.weights.values()))
        self._recent: Recent[OperationRecord] = Recent(self._world.random)
        self._count = 0
        self._runs = 0
        self._process: Process
        self._client: Any  # a `Client`, or what stands for one
        #: Calls of this process without an answer so far.
        self.unanswered: dict[int, CallRecord] = {}
        #: Whether it asks for anything new.
        self.is_busy: bool = True
        self.start()

    def start(self) -> None:
        """Start the process."""
        self._runs += 1
        self.unanswered = {}
        self._process = Process(self.machine, self._network)
        self._client = self._connect()
        self._plan(self._runs)

    def _connect(self) -> Any:
        """Return a client in the new process."""
        return Client(ADDRESS, name=self.name, platform=self._process, on_outcome=self._on_outcome)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    @property
    def running(self) -> bool:
        """Whether it was not killed since it was started."""
        return self._process.alive

    def _plan(self, run: int) -> None:
        mean = self._workload.clients / self._workload.rate
        delay_ns = int(self._world.random.expovariate(1 / mean) * NS_PER_S)
        self._world.after(delay_ns, lambda: self._act(run))

    def _act(self, run: int) -> None:
        if run != self._runs or not self.running or not self.is_busy:
            return
        if self.machine.awake_at_ns <= self._world.now_ns:
            self._draw_action()()
        self._plan(run)

    def _draw_action(self) -> Callable[[], None]:
        """Return one by the weights, the one that `random.choices` returns, and sooner."""
        drawn = self._world.random.random() * self._weights[-1]
        return self._actions[bisect_right(self._weights, drawn, 0, len(self._weights) - 1)]

    # Actions

    def _defer(self) -> None:
        operation = self._new_operation()
        future = self._client.defer(
            *operation.keys,
            timeout=operation.timeout_ns / NS_PER_S,
            need=operation.need,
            op_id=operation.op_id,
        )
        unanswered = self._await_answer(future, operation)
        future.add_done_callback(lambda _: self._on_end(operation, future, unanswered))

    def _on_end(
        self, operation: OperationRecord, future: Any, unanswered: dict[int, CallRecord]
    ) -> None:
        """Note how an operation has ended that this process waited for."""
        unanswered.pop(id(future), None)
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Unavailable) or not self._process.alive:
            return
        if isinstance(error, Refused):
            self._oracle.refuse_submission(operation)
            return
        if isinstance(error, RequestTimeout):  # its outcome comes to the handler
            silent_since_ns = self._world.now_ns - _TIMEOUT_NS
            self._oracle.time_out(operation, silent_since_ns)
            return
        self._oracle.submitted(operation, "pending")
        self._oracle.told(operation.op_id, *_outcome_of(future, error))

    def _submit(self) -> None:
        self._send(self._new_operation())

    def _submit_again(self) -> None:
        operation = self._recent.pick()
        if operation is not None and not self._is_long_ago(operation):
            operation.submissions += 1
            self._send(operation)

    def _is_long_ago(self, operation: OperationRecord) -> bool:
        """Whether its outcome has been known for so long that the id may be used anew."""
        return 0 <= operation.told_ns < self._world.now_ns - _KNOWN_NS

    def _send(self, operation: OperationRecord) -> None:
        reply = self._client.submit_later(
            *operation.keys,
            timeout=operation.timeout_ns / NS_PER_S,
            need=operation.need,
            op_id=operation.op_id,
        )
        self._when_answered(
            reply, operation, lambda receipt: self._oracle.submitted(operation, receipt.state)
        )

    def _complete(self) -> None:
        event = self._new_event()
        self._send_event(event, self._client.complete_later(event.key, event.value))

    def _complete_limited(self) -> None:
        event = self._new_event(limit=self._world.random.randint(1, 3))
        self._send_event(
            event, self._client.complete_later(event.key, event.value, limit=event.limit)
        )

    def _hold(self) -> None:
        limit = self._world.random.choice((None, 1, 2))
        event = self._new_event(limit=limit, hold_ns=self._draw_timeout_ns())
        reply = self._client.complete_later(
            event.key, event.value, limit=limit, hold=event.hold_ns / NS_PER_S
        )
        self._send_event(event, reply)

    def _hold_briefly(self) -> None:
        """Hold an event, and submit an operation for it in the last millisecond, or about then."""
        hold_ns = self._world.random.randint(1, 20) * NS_PER_MS
        event = self._new_event(hold_ns=hold_ns)
        reply = self._client.complete_later(event.key, event.value, hold=hold_ns / NS_PER_S)
        self._send_event(event, reply)
        process = self._process

        def submit() -> None:
            if process.alive and self.machine.awake_at_ns <= self._world.now_ns:
                self._send(self._new_operation((event.key,)))

        self._world.after(hold_ns, submit)

    def _fail(self) -> None:
        event = self._new_event(failed=True)
        self._send_event(event, self._client.fail_later(event.key, RuntimeError(str(event.value))))

    def _send_event(self, event: EventRecord, reply: Any) -> None:
        self._when_answered(reply, event, lambda count: self._oracle.answer(event, count))

    def _extend(self) -> None:
        operation = self._recent.pick()
        if operation is not None:
            call = ExtensionRecord(self._world.now_ns, timeout_ns=self._draw_timeout_ns())
            operation.extensions.append(call)
            reply = self._client.extend_later(operation.op_id, call.timeout_ns / NS_PER_S)
            self._when_answered(reply, call, lambda done: self._oracle.answer(call, done))

    def _cancel(self) -> None:
        operation = self._recent.pick()
        if operation is not None:
            call = CallRecord(self._world.now_ns)
            operation.cancels.append(call)
            reply = self._client.cancel_later(operation.op_id)
            self._when_answered(reply, call, lambda done: self._oracle.answer(call, done))

    def _await_answer(self, future: Any, call: CallRecord) -> dict[int, CallRecord]:
        """Count a call as unanswered until it is taken from what this returns."""
        self.unanswered[id(future)] = call
        return self.unanswered

    def _when_answered(self, reply: Any, call: CallRecord, note: Callable[[Any], None]) -> None:
        """Note the answer when it comes; nothing if this process ends before."""
        process, called_ns = self._process, self._world.now_ns
        unanswered = self._await_answer(reply, call)

        def answered(future: Any) -> None:
            unanswered.pop(id(future), None)
            error = future.exception()
            if not process.alive or isinstance(error, Unavailable):
                return
            if isinstance(error, RequestTimeout):
                self._oracle.time_out(call, called_ns)
            elif error is None:
                note(future.result())
            elif not isinstance(error, Refused):
                raise error
            elif isinstance(call, OperationRecord):
                self._oracle.refuse_submission(call)
            else:
                self._oracle.refuse(call)

        reply.add_done_callback(answered)

    def _on_outcome(self, outcome: OutcomeMessage) -> None:
        """Handle an outcome that no future waits for."""
        if not self._process.alive:
            return
        self._oracle.arrived(outcome)
        if self._world.chance(self._workload.handler_errors):
            raise HandlerError
        result = outcome.result
        if outcome.outcome == "failed":
            result = int(outcome.result[1])
        self._oracle.told(outcome.op_id, outcome.outcome, result)

    # Chance

    def _new_operation(self, keys: tuple[str, ...] = ()) -> OperationRecord:
        self._count += 1
        chance = self._world.random
        if not keys:
            keys = tuple({self._draw_key(): None for _ in range(chance.choice((1, 1, 1, 2, 4)))})
        operation = OperationRecord(
            self._world.now_ns,
            op_id=f"{self.name}-{self._count}",
            client=self.name,
            keys=keys,
            need=chance.choice((1, 1, len(keys))),
            timeout_ns=self._draw_timeout_ns(),
        )
        self._oracle.submit(operation)
        self._recent.add(operation)
        return operation

    def _new_event(
        self, *, failed: bool = False, limit: int | None = None, hold_ns: int = 0
    ) -> EventRecord:
        value = len(self._oracle.events) + 1
        event = EventRecord(
            self._world.now_ns,
            key=self._draw_key(),
            value=value,
            failed=failed,
            limit=limit,
            hold_ns=hold_ns,
        )
        self._oracle.add_event(event)
        return event

    def _draw_key(self) -> str:
        return f"key-{self._world.random.randrange(self._workload.keys)}"

    def _draw_timeout_ns(self) -> int:
        work = self._workload
        seconds = self._world.spread(work.shortest_timeout, work.longest_timeout)
        return int(seconds * 1000) * NS_PER_MS


def _outcome_of(future: Any, error: BaseException | None) -> tuple[str, Any]:
    """Return how an operation has ended, and its result, as an `OutcomeMessage` has them."""
    if future.cancelled() or isinstance(error, OperationCancelled):
        return "cancelled", None
    if isinstance(error, OperationExpired):
        return "expired", None
    if isinstance(error, OperationFailed):
        return "failed", int(error.message)
    if error is not None:
        raise error
    return "completed", future.result()
