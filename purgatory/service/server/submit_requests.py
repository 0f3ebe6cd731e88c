"""SubmitRequests: carries out submits, and repeated submits. Store thread alone."""

from contextlib import suppress
from typing import Final

from msgspec.structs import astuple

from _purgatory_cpython.mypyc_types import i64
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.errors import OperationIdTaken, Refused, TooManySessions
from purgatory.service.protocol import (
    DEFAULT,
    MADE_UP,
    Known,
    Refusal,
    Submission,
    SubmissionOptions,
    Submit,
    Submitted,
)
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.memory import job_bytes, operation_bytes
from purgatory.service.server.reads.remembered_answers import RememberedReader
from purgatory.service.server.reads.status_answers import state_of
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import (
    RequestValidator,
    SubmissionFields,
    SubmissionValues,
    shown,
)
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import Options

# Submits have remembered answers of their own: added to the session's name.
_SUBMITS: Final = "#submits"


class _Room:
    """What the server's bounds leave for a submit, summed up once."""

    __slots__ = ("bytes", "total")

    def __init__(self, total: i64, left: i64) -> None:
        self.total: i64 = total
        self.bytes: i64 = left


class SubmitRequests:
    """Submits operations; a client that lost an answer submits again. Raises StoreError."""

    def __init__(self, state: ServerState, store: Store, validator: RequestValidator) -> None:
        self._state = state
        self._validator = validator
        self._remembered = RememberedReader(state, store)

    def submit(
        self, transaction: Transaction, command: ClientRequest, request: Submit
    ) -> Submitted:
        """Submit the operations that are new."""
        given = transaction.given_ids
        first = self._first_answer(command, request)
        reply = self._submit(transaction, command, request, first)
        has_ids = transaction.given_ids != given or reply.known
        if has_ids and first is None and command.session:
            self._remember(transaction, command, reply)
        return reply

    def reject(
        self, transaction: Transaction, command: ClientRequest, request: Submit, failure: Refused
    ) -> Submitted:
        """Answer a submit whose transaction was rolled back.

        Operations on disk are not reported as refused: the client may have lost an earlier answer.
        """
        first = self._first_answer(command, request)
        reply = self._submit(transaction, command, request, first, failure)
        clients = self._state.clients
        clients.drop_if_idle(clients.record(command.client))
        return reply

    def _first_answer(self, command: ClientRequest, request: Submit) -> Submitted | None:
        if not command.session or not self._state.replies.bytes:
            return None
        frame = self._state.replies.find(self._key(command), request.seq)
        if frame is None:
            return None
        first = decode_answer(frame)
        assert isinstance(first, Submitted)
        return first

    def _key(self, command: ClientRequest) -> str:
        return self._state.replies.key(command.client, command.session + _SUBMITS)

    def _remember(self, transaction: Transaction, command: ClientRequest, reply: Submitted) -> None:
        """Remember the answer, if there is room: before a retry, ids may be forgotten."""
        with suppress(TooManySessions):
            key = self._key(command)
            self._state.replies.check_room(command.client, key)
            transaction.remember_reply(key, command.request.seq, encode(reply))

    def _submit(
        self,
        transaction: Transaction,
        command: ClientRequest,
        request: Submit,
        first: Submitted | None,
        failure: Refused | None = None,
    ) -> Submitted:
        """Submit new operations, or refuse them for a `failure`; `first`: an earlier answer."""
        refused: list[Refusal] = []
        known: list[Known] = []
        outcomes: list[OutcomeRecord] = []
        done = _taken_at_first(request, first)
        client = self._state.clients.record(command.client)
        room = _Room(transaction.total, self._state.memory_left)
        for index, submission in enumerate(request.operations):
            fields: SubmissionFields = astuple(submission)
            before = self._holder(fields)
            if before is not None and _is_of(before, command.client, submission):
                _add_known(index, before, known, outcomes)
            elif index not in done:  # else the operation has ended, and the id was free again
                refusal = (
                    failure
                    or _taken(before, submission, client)
                    or self._submit_new(transaction, client, submission, fields, room)
                )
                if refusal is not None:
                    refused.append(Refusal(index, refusal.code, str(refusal)))
        if outcomes:
            transaction.repeated_outcomes.append((command, outcomes))
        if first is not None:
            known = _known_as_at_first(known, first)
        return Submitted(request.seq, refused, known)

    def _holder(self, fields: SubmissionFields) -> PendingOperation | OutcomeRecord | None:
        op_id, said = fields[0], fields[6]
        known = self._state.known.get(op_id)
        spreads = self._state.spreads
        if spreads.by_key and spreads.settle is not None and isinstance(known, PendingOperation):
            spreads.settle(known)  # an event may have ended it
            known = self._state.known.get(op_id)
        if isinstance(known, OutcomeRecord) and known.is_over(self._state.stamp.now_ms):
            return None
        if known is None and said is not None and said.unique_ms != MADE_UP:
            return self._remembered.find(op_id)
        return known

    def _submit_new(
        self,
        transaction: Transaction,
        client: ClientRecord,
        submission: Submission,
        fields: SubmissionFields,
        room: _Room,
    ) -> Refused | None:
        op_id, keys, timeout_ms, need, kind, payload, said = fields
        values: SubmissionValues = (op_id, keys, timeout_ms, need, kind, payload)
        options: Options | None = None
        if said is not None:
            values, options = self._with_options(values, said)
        refusal = self._refusal(submission, values, options, client, room.total)
        if refusal is not None:
            return refusal
        size = operation_bytes(op_id, kind, keys)
        life = 0 if need else job_bytes(() if options is None else options.tags, keys)
        if size + life > room.bytes:
            return self._state.no_room(f"an operation of {size} bytes")
        transaction.submit(client, values, size, options)
        room.total += 1
        room.bytes -= size + life
        return None

    def _with_options(
        self, values: SubmissionValues, said: SubmissionOptions
    ) -> tuple[SubmissionValues, Options]:
        op_id, keys, timeout_ms, need, kind, payload = values
        if said.due_ms is not None and need == 0:
            timeout_ms = max(0, said.due_ms - self._state.stamp.now_ms)
        unique_ms = said.unique_ms
        if unique_ms == DEFAULT:
            unique_ms = self._state.remembered.remember_ms
        tags = tuple(dict.fromkeys(said.tags))
        options = Options(unique_ms, tags, said.priority, said.start_within_ms)
        return (op_id, keys, timeout_ms, need, kind, payload), options

    def _refusal(
        self,
        submission: Submission,
        values: SubmissionValues,
        options: Options | None,
        client: ClientRecord,
        total: i64,
    ) -> Refused | None:
        refusal = self._validator.check_submission(submission, values, client, total, options)
        if refusal is not None or options is None:
            return refusal
        remembered = self._state.remembered
        refusal = remembered.refusal(options.unique_ms)
        if refusal is not None:
            remembered.reserved -= self._state.retention.end_periods(self._state.stamp.now_ms)
            refusal = remembered.refusal(options.unique_ms)
        return refusal


def _taken_at_first(request: Submit, first: Submitted | None) -> set[int]:
    if first is None:
        return set()
    refused = {refusal.index for refusal in first.refused}
    return set(range(len(request.operations))) - refused


def _known_as_at_first(known: list[Known], first: Submitted) -> list[Known]:
    """Return the operations known at first, as they are now: new jobs count as new again."""
    now = {one.index: one for one in known}
    return [now.get(one.index, one) for one in first.known]


def _is_of(entry: PendingOperation | OutcomeRecord, client: str, submission: Submission) -> bool:
    """Whether a client submits the holder of an id again."""
    # By name: a client that was idle has a new record.
    return entry.client.name == client and _is_job(entry) == (submission.need == 0)


def _is_job(entry: PendingOperation | OutcomeRecord) -> bool:
    return entry.is_job if isinstance(entry, OutcomeRecord) else entry.need == 0


def _taken(
    entry: PendingOperation | OutcomeRecord | None, submission: Submission, client: ClientRecord
) -> Refused | None:
    if entry is None:
        return None
    whose = "another client"
    if entry.client.name == client.name:
        whose = "a job" if _is_job(entry) else "an operation that is no job"
    return OperationIdTaken(f"id {shown(submission.op_id)} belongs to {whose}")


def _add_known(
    index: int,
    entry: PendingOperation | OutcomeRecord,
    known: list[Known],
    outcomes: list[OutcomeRecord],
) -> None:
    known.append(Known(index, state_of(entry)))
    if isinstance(entry, OutcomeRecord) and not entry.is_job:
        outcomes.append(entry)
