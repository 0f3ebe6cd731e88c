"""Desk: requests in, answers out, between the room and the threads. The store thread alone.

What changes something is done at once and answered when it is committed; what only asks is answered
after that. So nobody is told what might still be undone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw

from purgatory.service.errors import Refused
from purgatory.service.protocol import (
    NOTHING,
    VERSION,
    Acknowledge,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Failure,
    Figures,
    Outcome,
    Outcomes,
    Query,
    State,
    States,
    Stats,
    Submit,
    Submitted,
    Welcome,
    encode,
)
from purgatory.service.server.commands import Asked, Attach, Push
from purgatory.service.server.operation import Ended, Waiting
from purgatory.service.server.state import Room, result_of
from purgatory.service.server.transaction import Turn
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import Store, StoredOutcome

# A frame of outcomes has no more than that of them, and is about that large.
OUTCOMES_A_FRAME = 256
FRAME_BYTES = 1 << 18
_ROW_BYTES = 200

_NOTHING: Final = Raw(NOTHING)

Answers = list[tuple[bytes, bytes]]


class Desk:
    """``figures``: what `Stats` is answered with. ``server``: the words of `Welcome` about us."""

    def __init__(
        self, room: Room, store: Store, figures: Callable[[], dict[str, Any]], server: str
    ) -> None:
        self._room = room
        self._store = store
        self._figures = figures
        self._server = server
        self.refused = 0
        self._answers: list[tuple[bytes, Any]] = []  # of this turn
        self._again: list[tuple[bytes, list[Ended]]] = []  # ends that were asked for by a submit
        self._questions: list[Asked | Attach] = []  # for after the commit
        self._changed: list[Asked] = []  # by whom, if the turn has to be undone

    def take(self, asked: Asked | Attach) -> None:
        """Do what a request changes."""
        if isinstance(asked, Attach):
            self._room.client(asked.client).connections += 1
            self._questions.append(asked)
            return
        try:
            self._change(asked)
        except Refused as refusal:
            self._refuse(asked, refusal)

    def _change(self, asked: Asked) -> None:
        room = self._room
        request = asked.request
        answer: Any
        if isinstance(request, Submit):
            refused, known, ended = room.submit(room.client(asked.client), request.operations)
            self.refused += len(refused)
            answer = Submitted(request.seq, refused, known)
            if ended:
                self._again.append((asked.route, ended))
        elif isinstance(request, Complete):
            for completion in request.completions:
                _raise(room.checks.completion(completion))
            answer = Completed(request.seq, room.complete(request.completions))
        elif isinstance(request, Cancel):
            answer = Cancelled(request.seq, room.cancel(request.op_ids))
        elif isinstance(request, Acknowledge):
            room.acknowledge(room.client(asked.client), request.outcomes)
            return
        else:
            self._questions.append(asked)
            return
        self._changed.append(asked)
        self._answers.append((asked.route, answer))

    def _refuse(self, asked: Asked, refusal: Refused) -> None:
        self.refused += 1
        failure = Failure(asked.request.seq, refusal.code, str(refusal))
        self._answers.append((asked.route, failure))

    def undone(self, refusal: Refused) -> None:
        """Answer all that was to change something with a refusal: the turn was undone."""
        self._answers = []
        self._again = []
        for asked in self._changed:
            self._refuse(asked, refusal)

    def answers(self) -> Answers:
        """What the turn is answered with, once it is committed or undone. Raises StoreError."""
        found = [(route, encode(answer)) for route, answer in self._answers]
        for route, ended in self._again:
            found += ((route, frame) for _, _, frame in self._frames(ended))
        for asked in self._questions:
            found.append((asked.route, encode(self._answer(asked))))
        self._answers, self._again, self._questions, self._changed = [], [], [], []
        return found

    def _answer(self, asked: Asked | Attach) -> Any:
        if isinstance(asked, Attach):
            return Welcome(asked.seq, VERSION, self._server, self._room.checks.limits)
        request = asked.request
        if isinstance(request, Query):
            return States(request.seq, [self._state(op_id) for op_id in request.op_ids])
        assert isinstance(request, Stats)
        return Figures(request.seq, self._figures())

    def _state(self, op_id: str) -> State:
        entry = self._room.known.get(op_id)
        if entry is None:
            return State(op_id, "unknown")
        if isinstance(entry, Ended):
            [(outcome, row)] = self._store.ended([entry.seq])
            return _ended_state(outcome, row)
        return State(
            op_id,
            "pending",
            entry.kind,
            entry.client.name,
            list(entry.keys),
            entry.need,
            entry.submitted_ms,
            entry.due_ms,
            keys_done=list(entry.values or ()),
        )

    def pushes(self, turn: Turn) -> list[Push]:
        """The outcomes of a committed turn, for those of their clients that are there."""
        of_client: dict[str, list[tuple[Waiting, Ended]]] = {}
        for operation, ended in turn.ended:
            if ended.client.connections:
                of_client.setdefault(ended.client.name, []).append((operation, ended))
        found = []
        for name, pairs in of_client.items():
            stored = self._store.named(
                [operation.number for operation, _ in pairs if operation.has_payload]
            )
            payloads = {number: row.payload for number, row in stored.items()}
            outcomes = (_outcome(operation, ended, payloads) for operation, ended in pairs)
            found += [Push(name, first, last, frame) for first, last, frame in _framed(outcomes)]
        return found

    def more(self, client: str, after: int) -> tuple[bytes | None, int]:
        """A frame of a client's outcomes beyond ``after``, and how far it reaches."""
        state = self._room.clients.get(client)
        if state is None:  # it has gone again
            return None, after
        while seqs := state.after(after, OUTCOMES_A_FRAME):
            ends = [state.unacknowledged[seq] for seq in seqs if seq in state.unacknowledged]
            for _, last, frame in self._frames(ends):
                return frame, last
            after = seqs[-1]
        return None, after

    def _frames(self, ends: Sequence[Ended]) -> Iterator[tuple[int, int, bytes]]:
        for start in range(0, len(ends), OUTCOMES_A_FRAME):
            rows = self._store.ended([end.seq for end in ends[start : start + OUTCOMES_A_FRAME]])
            yield from _framed(_stored_outcome(outcome, row) for outcome, row in rows)


def _framed(outcomes: Iterable[Outcome]) -> Iterator[tuple[int, int, bytes]]:
    """Frames of bounded size: number of the first outcome, of the last, and the frame."""
    some: list[Outcome] = []
    size = 0
    for outcome in outcomes:
        some.append(outcome)
        size += _ROW_BYTES + len(outcome.result) + len(outcome.payload)
        if len(some) >= OUTCOMES_A_FRAME or size >= FRAME_BYTES:
            yield some[0].number, some[-1].number, encode(Outcomes(some))
            some = []
            size = 0
    if some:
        yield some[0].number, some[-1].number, encode(Outcomes(some))


def _raw(value: bytes | None) -> Raw:
    return Raw(value) if value else _NOTHING


def _outcome(operation: Waiting, ended: Ended, payloads: dict[int, bytes | None]) -> Outcome:
    return Outcome(
        ended.seq,
        operation.op_id,
        ended.outcome,
        ended.at_ms(operation),
        operation.by_key,
        _raw(result_of(operation)),
        operation.kind,
        operation.submitted_ms,
        operation.due_ms,
        _raw(payloads.get(operation.number)) if operation.has_payload else _NOTHING,
    )


def _stored_outcome(outcome: StoredOutcome, row: StoredOperation) -> Outcome:
    return Outcome(
        outcome.seq,
        row.op_id,
        outcome.outcome,
        outcome.at_ms,
        outcome.by_key,
        _raw(outcome.result),
        row.kind,
        row.submitted_ms,
        row.deadline_ms,
        _raw(row.payload),
    )


def _ended_state(outcome: StoredOutcome, row: StoredOperation) -> State:
    return State(
        row.op_id,
        outcome.outcome,
        row.kind,
        row.client,
        list(row.keys),
        row.need,
        row.submitted_ms,
        row.deadline_ms,
        outcome.at_ms,
        outcome.by_key,
    )


def _raise(refusal: Refused | None) -> None:
    if refusal is not None:
        raise refusal
