"""ModelCheck: runs the model beside a server, and compares all that the server says.

An observer of one process of the server; the model outlives it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from purgatory.errors import StoreError
from purgatory.service.encoding import encode
from purgatory.service.errors import StoreFailed
from purgatory.service.protocol import Acknowledge, Failure, OutcomeMessage, Outcomes, Submit
from purgatory.service.server.commands import (
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    NetworkCommand,
    OutcomeFrame,
    OutcomePush,
    TransactionReplies,
)
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.testing.world.process import Process
from tests.simulation.model.lease_check import IN_MEMORY, LeaseCheck
from tests.simulation.model.model_operation import ModelOperation, is_answer, is_result
from tests.simulation.model.server_model import ServerModel

_RETRY_MS = 1000
_OUTCOMES = msgspec.msgpack.Decoder(Outcomes)
# Types of messages, the second byte of a frame: Failure, Outcomes.
_FAILURE, _OUTCOMES_TAG = 38, 64
_NUMBERS = msgspec.msgpack.Decoder(list[Any])


class ModelCheck:
    """Compares a server's process with `model`; `report` is told of the first difference."""

    def __init__(self, model: ServerModel, process: Process, report: Callable[[str], None]) -> None:
        self._model = model
        self._process = process
        self._report = report
        self._transaction: Transaction | None = None
        self._seen = 0  # outcomes of the transaction
        self._is_open = False  # the transaction was not handed to the disk
        #: Whether it is not known if the last transaction is on disk.
        self.is_in_doubt = False
        self._leases: LeaseCheck | None = None  # from when the process has loaded them
        self._retry_ms = 0  # nothing expires before: a commit has failed
        self._writes: list[tuple[ClientRequest, bytes]] = []
        #: Frames that routes have to be sent: those of this transaction, whatever becomes of it.
        self._owed: list[tuple[bytes, bytes]] = []
        #: Routes and numbers of requests that the model does not know.
        self._open: list[tuple[bytes, int]] = []
        self._late: list[tuple[bytes, bytes]] = []  # when all operations have ended
        self._connections: Counter[str] = Counter()
        self._last_seq = 0
        #: Operations that the process's start has ended, of earlier events.
        self.ended_at_start: set[str] = set()

    def _fail(self, what: str) -> None:
        self._report(f"the model of the server says otherwise: {what}")

    def watch_leases(self, state: ServerState) -> None:
        """Compare leases, too: those of the state that the process has loaded."""
        self._leases = LeaseCheck(self._model, state, self._fail)

    # Of a transaction

    def begun(self, transaction: Transaction) -> None:
        """See `TransactionObserver`."""
        if not self._process.alive:
            return
        self._transaction, self._seen = transaction, 0
        self._is_open = True
        self._writes.clear()
        self._owed.clear()
        self._open.clear()
        model = self._model
        model.begin(transaction.clock_ns)
        if transaction.clock_ms < self._retry_ms:
            if transaction.outcomes:
                self._fail("operations ended, though the disk has just failed")
            return
        self._expire(transaction)

    def _expire(self, transaction: Transaction) -> None:
        """Expire what the server has expired: all that is due, or a portion of it."""
        model = self._model
        due = {operation.op_id: operation for operation in model.due()}
        if not due and not transaction.outcomes:
            return
        for ended, _, _, _ in transaction.outcomes:
            operation = due.pop(ended.op_id, None)
            if operation is not None:
                model.expire(operation)
        self._check_outcomes(transaction)
        for operation in due.values():
            model.plan(operation)
        if due and not transaction.is_behind:
            self._fail(f"is due, and has not expired: {next(iter(due.values()))}")

    def _check_outcomes(self, transaction: Transaction) -> None:
        """Compare the outcomes that the transaction has had since the last look."""
        if len(transaction.outcomes) == self._seen:
            return
        unpublished = self._model.events.unpublished
        for ended, record, at_ms, result in transaction.outcomes[self._seen :]:
            operation = unpublished.pop(ended.op_id, None)
            if operation is None or operation.end is None:
                known = self._model.known.get(ended.op_id)
                self._fail(f"{ended.op_id} has ended, {record.outcome}; expected: {known}")
                continue
            self._model.undo.add(unpublished.__setitem__, operation.op_id, operation)
            self._compare(operation, record.outcome, at_ms, ended.by_key, result)
            if record.seq <= self._last_seq:
                self._fail(f"outcome {record.seq} comes after outcome {self._last_seq}")
            self._last_seq = record.seq
        self._seen = len(transaction.outcomes)

    def _compare(
        self,
        operation: ModelOperation,
        outcome: str,
        at_ms: int,
        by_key: str | None,
        result: bytes | None,
    ) -> None:
        """Compare how an operation has ended, and by what."""
        end = operation.end
        assert end is not None
        is_same = end[:3] == (outcome, at_ms, by_key) and is_result(end.result, result)
        if not is_same:
            found = (outcome, at_ms, by_key, result)
            self._fail(f"has ended with {found}: {operation}")

    def handled(
        self,
        transaction: Transaction,
        command: ClientRequest | ClientConnected | ClientDisconnected,
    ) -> None:
        """See `TransactionObserver`."""
        if not self._process.alive:
            return
        if transaction is not self._transaction:
            self._fail(f"a request has brought out a fault: {command}")
            self._transaction = transaction
        if isinstance(command, ClientConnected):
            self._connections[command.client] += 1
            self._open.append((command.route, command.seq))
        elif isinstance(command, ClientDisconnected):
            self._connections[command.client] -= 1
            self._model.leases.disconnect(command.route)
        else:
            self._execute(command)
        now_ms = transaction.events._state.stamp.now_ms
        if self._model.stamp.now_ms != now_ms:
            stamps = f"{now_ms}; expected {self._model.stamp.now_ms}"
            self._fail(f"the stamp after {command} is {stamps}")
            self._model.stamp.follow(now_ms)

    def _execute(self, command: ClientRequest) -> None:
        """Have the model execute a request, and note what it is to be answered."""
        model, request = self._model, command.request
        model.leases.hear(command.route)
        if isinstance(request, Submit):
            reply = model.submit_in(command.client, command.session, request)
            self._writes.append((command, encode(reply)))
        elif type(request) in model.changes:
            frame, is_old = model.answer_once(command.client, command.session, request)
            if self._transaction is not None and self._transaction.events._state.spreads.in_order:
                model.late.setdefault((command.client, command.session), set()).add(request.seq)
            if is_old:
                self._owed.append((command.route, frame))
            else:
                self._writes.append((command, frame))
        elif isinstance(request, Acknowledge):
            count = model.acknowledge(command.client, request)
            if request.answer:
                self._owed.append((command.route, encode(count)))
        elif self._leases is not None and isinstance(request, IN_MEMORY):
            answer = self._leases.do_in_memory(command, model.clock_ms)
            if answer is not None:
                self._owed.append((command.route, encode(answer)))
        else:
            self._open.append((command.route, request.seq))

    def prepared(self, transaction: Transaction) -> None:
        """See `TransactionObserver`."""
        if self._process.alive:
            self._check_outcomes(transaction)
            self._note_due(transaction)
            self._is_open, self.is_in_doubt = False, True

    def _note_due(self, transaction: Transaction) -> None:
        """Note the jobs that are due when this transaction is on disk."""
        for ended, record, _, _ in transaction.outcomes:
            operation = self._model.known.get(ended.op_id)
            if operation is not None and operation.is_job and record.outcome == "expired":
                operation.seq = record.seq
        self._model.leases.add_due()

    def ended(
        self,
        transaction: Transaction,
        error: StoreError | None,
        answer: TransactionReplies | None,
    ) -> None:
        """See `TransactionObserver`."""
        if not self._process.alive:
            return  # killed meanwhile
        if transaction is not self._transaction:
            self.ended_at_start.update(ended.op_id for ended, _, _, _ in transaction.outcomes)
            return
        if answer is None:
            return  # in doubt
        self.is_in_doubt = False
        if error is None:
            self._commit(transaction, answer)
        else:
            self._roll_back(transaction, error)
        are_late = bool(
            self._model.events.unpublished or transaction.events._state.spreads.in_order
        )
        self._check_answer(answer, are_late=are_late)

    def _commit(self, transaction: Transaction, answer: TransactionReplies) -> None:
        if self._leases is not None:
            self._leases.lapse(transaction, looks=transaction.clock_ms >= self._retry_ms)
            self._model.leases.publish()
            self._leases.check_given(answer.replies, transaction.clock_ms)
        self._model.undo.forget()
        self._owed += [(command.route, frame) for command, frame in self._writes]
        for ended, record, _, _ in transaction.outcomes:
            self._model.publish(self._model.known[ended.op_id], record.seq)
        for record in transaction.deleted:
            self._delete(record.op_id, record.seq)
        self._check_pushes(transaction, answer.pushes)

    def _delete(self, op_id: str, seq: int) -> None:
        """Forget an operation of which the server has deleted the outcome `seq`."""
        operation = self._model.known.get(op_id)
        if operation is None and seq in self._model.leases.dropped:
            return
        if operation is not None and operation.seq not in (0, seq):
            return  # it has the id of one that was dropped
        if operation is not None and operation.seq == seq:
            del self._model.known[op_id]
        if operation is None or operation.end is None:
            self._fail(f"{op_id} is deleted, and has not ended: {operation}")
        elif not operation.is_acknowledged and not operation.is_job:
            self._fail(f"is deleted, and its client has not acknowledged its outcome: {operation}")

    def _roll_back(self, transaction: Transaction, error: StoreError) -> None:
        model = self._model
        model.take_back()
        self._retry_ms = transaction.clock_ms + _RETRY_MS
        for command, _ in self._writes:
            request = command.request
            reply: Any = None
            if isinstance(request, Submit):
                text = str(error)
                reply = model.refuse_submission(
                    command.client, command.session, request, StoreFailed.code, text
                )
            if reply is None:
                reply = Failure(request.seq, StoreFailed.code, str(error))
            self._owed.append((command.route, encode(reply)))

    def paused(self, until_ms: int) -> None:
        """See `TransactionObserver`.

        Without a request the server looks by itself whether its disk is well, and waits again.
        """
        if not self._process.alive:
            return
        if until_ms > self._model.clock_ms + _RETRY_MS:
            self._fail(f"nothing expires before {until_ms}")
        self._retry_ms = until_ms

    # What is sent

    def _check_answer(self, answer: TransactionReplies, *, are_late: bool) -> None:
        """Compare the frames that are sent with those that are owed.

        `are_late`: operations are still to end, so the answers about them come later.
        """
        owed = self._owed
        owed += self._late
        self._late = []
        for reply in answer.replies:
            if reply in owed:
                owed.remove(reply)
            else:
                self._check_unexpected(*reply)
        if owed and are_late:
            self._late = owed.copy()
        elif owed:
            self._fail(f"an answer was not sent: {_NUMBERS.decode(owed[-1][1])}")

    def _check_unexpected(self, route: bytes, frame: bytes) -> None:
        """Check a frame that the model does not know: a push, or of a request not known either."""
        numbers = _NUMBERS.decode(frame)
        if numbers[0] > _OUTCOMES_TAG:
            return
        if (route, numbers[1]) in self._open:
            self._open.remove((route, numbers[1]))
            return
        expected = []
        for to, owed in self._owed:
            if to == route and (answer := _NUMBERS.decode(owed))[1] == numbers[1]:
                if is_answer(answer, numbers):
                    self._owed.remove((to, owed))
                    return
                expected.append(answer)
        self._fail(f"answers {numbers}; expected {expected}")

    def _check_pushes(self, transaction: Transaction, pushes: Sequence[OutcomePush]) -> None:
        """Check that each client is told of what has ended, all of it and nothing else."""
        told: set[int] = set()
        for push in pushes:
            if push.frame is None:  # to be fetched
                told.update(range(push.first, push.last + 1))
            else:
                told.update(self._check_outcome_frame(push.frame))
        for _, record, _, _ in transaction.outcomes:
            client = record.client.name
            if not record.is_job and record.seq not in told and self._connections[client]:
                self._fail(f"client {client} is not told of outcome {record.seq}")

    def _check_outcome_frame(self, frame: bytes) -> list[int]:
        """Compare the outcomes of a frame; returns their numbers."""
        messages = _OUTCOMES.decode(frame).outcomes
        for message in messages:
            self._check_message(message)
        return [message.number for message in messages]

    def _check_message(self, message: OutcomeMessage) -> None:
        operation = self._model.known.get(message.op_id)
        if operation is None or operation.end is None:
            self._fail(f"tells of {message}; expected {operation}")
            return
        outcome, at_ms, by_key = message.outcome, message.at_ms, message.by_key
        self._compare(operation, outcome, at_ms, by_key, bytes(message.result))
        found = (message.number, message.submitted_ms, message.deadline_ms)
        if found != (operation.seq, operation.submitted_ms, operation.deadline_ms):
            self._fail(f"tells of {message}; expected {operation}")

    def read(self, answers: Sequence[NetworkCommand]) -> None:
        """See `TransactionObserver`."""
        if not self._process.alive:
            return
        for answer in answers:
            if isinstance(answer, OutcomeFrame) and answer.frame is not None:
                self._check_outcome_frame(answer.frame)

    @property
    def phase(self) -> str:
        """What the process does with its transaction."""
        if self._is_open:
            return "in a transaction"
        return "in a commit" if self.is_in_doubt else "at rest"

    def abandon(self) -> None:
        """Note that the process is gone: what it had not handed to the disk is taken back."""
        if self._is_open:
            self._model.take_back()
        elif self.is_in_doubt and self._leases is not None:
            self._leases.doubt(self._model.clock_ms)
