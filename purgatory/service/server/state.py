"""Room: what waits at a server and what has ended there; every decision is made here.

Used by the store thread alone, which makes decision and commit one step. What a turn did is kept in
memory at once and written down in the turn; if its commit fails, `undo` takes all of it back, so
memory and disk always agree when the turn is over. Nothing is told to anybody before.

The timer's clock is moved by hand, once a turn: everything in a turn happens at one moment.
"""

import sys
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Raw
from msgspec.structs import astuple
from prometheus_client import CollectorRegistry

from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED, EXPIRED, Outcome
from purgatory.core.purgatory import Purgatory
from purgatory.service.protocol import (
    NOTHING,
    Completion,
    Known,
    Refusal,
    Submission,
    encode,
)
from purgatory.service.server.deferred_executor import Pile
from purgatory.service.server.operation import Client, Completing, Ended, Waiting
from purgatory.service.server.transaction import Turn, TurnClock
from purgatory.service.server.validation import Checks, Values
from purgatory.service.store.operation_batches import MOST, Batch, StoredOperation
from purgatory.service.store.store import Position, Store
from timingwheel import Timer

# How many operations may expire in a turn, by and large: others are waiting to be served.
EXPIRE_AT_ONCE = 5000
# How many acknowledged outcomes are deleted in a turn.
FORGET_AT_ONCE = 5000
# So many of them are kept for a while, for those who ask or submit once more.
KEEP = 10_000
KEEP_MS = 600_000


class Room:
    """``checks``: what is taken. ``start_ms``: the moment of the first turn, or before."""

    def __init__(
        self, name: str, checks: Checks, start_ms: int, registry: CollectorRegistry | None = None
    ) -> None:
        self.checks = checks
        self.clock = TurnClock(start_ms)
        self.pile = Pile()
        self.timer = Timer(name, clock=self.clock, executor=self.pile)
        self.purgatory = Purgatory(name, timer=self.timer, journal=self, registry=registry)
        self.known: dict[str, Waiting | Ended] = {}
        self.clients: dict[str, Client] = {}
        self.unacknowledged = 0
        self._number = 0  # the last one given to an operation
        self._seq = 0  # and to an outcome
        self._kept = Position(sys.maxsize, sys.maxsize)  # by the journal
        # When acknowledged, and what; first come first.
        self._forgettable: deque[tuple[int, Ended]] = deque()
        self._next_ms = 0  # nothing is due before; 0: somebody has to look
        self._blocked = False  # the first of these is not in the journal yet
        self._turn = Turn(start_ms)
        self._silent = False  # while a turn is undone

    @property
    def total(self) -> int:
        """How many operations wait, or have ended and are not acknowledged.

        Or are kept all the same, beyond `KEEP`: because the journal does not write them down.
        """
        kept = max(0, len(self._forgettable) - KEEP)
        return self.purgatory.delayed + self.unacknowledged + kept

    def client(self, name: str) -> Client:
        """The client of a name."""
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = Client(name)
        return client

    def begin(self, now_ms: int) -> Turn:
        """Begin a turn."""
        self._turn = Turn(max(now_ms, self._turn.now_ms))
        return self._turn

    def expire(self) -> None:
        """Let expire what is due, or a portion of it."""
        now_ms = self.clock.now_ms = self._turn.now_ms
        next_ms, self._next_ms = self._next_ms, 0
        if now_ms < next_ms:
            return
        self.timer.advance_clock()
        ended = self._turn.ended
        self.pile.run(lambda: len(ended) >= EXPIRE_AT_ONCE)

    def next_ms(self) -> int | None:
        """When something is due; None: nothing waits."""
        now_ms = self.clock.now_ms
        if self.pile:
            return now_ms
        delay = self.timer.delay_to_next()
        self._next_ms = sys.maxsize if delay is None else now_ms + round(delay * 1000)
        return None if delay is None else self._next_ms

    def submit(
        self, client: Client, submissions: Iterable[Submission]
    ) -> tuple[list[Refusal], list[Known], list[Ended]]:
        """Have operations wait: which were refused, which were known, and their ends if any."""
        refused: list[Refusal] = []
        known: list[Known] = []
        ended: list[Ended] = []
        total = self.total
        clock_ms = self.clock.now_ms
        for index, submission in enumerate(submissions):
            values: Values = astuple(submission)
            before = self.known.get(values[0])
            if before is not None and before.client is client:
                known.append(Known(index, _state(before)))
                if isinstance(before, Ended):
                    ended.append(before)
                continue
            refusal = self.checks.submission(submission, values, client, total, before)
            if refusal is None:
                self._take(client, submission, values, clock_ms)
                total += 1
            else:
                refused.append(Refusal(index, refusal.code, str(refusal)))
        return refused, known, ended

    def _take(self, client: Client, submission: Submission, values: Values, clock_ms: int) -> None:
        op_id, keys, timeout_ms, need, kind, payload = values
        turn = self._turn
        now_ms = turn.now_ms
        self._number = number = self._number + 1
        operation = Waiting(
            number,
            client,
            op_id,
            sys.intern(kind) if kind else "",
            now_ms,
            now_ms + timeout_ms,
            need,
            len(payload) != 1 or bytes(payload) != NOTHING,
            clock_ms,
        )
        self._watch(operation, keys)
        turn.submitted.append(operation)
        batch = turn.batch
        if batch is None or batch.client != client.name or len(batch.operations) >= MOST:
            turn.batch = batch = Batch(number, client.name, now_ms, [])
            turn.changes.operations.append(batch)
        batch.operations.append(submission)

    def _watch(self, operation: Waiting, keys: Sequence[str]) -> None:
        self._next_ms = 0
        self.purgatory.try_complete_else_watch(operation, keys)
        operation.keys = operation._op_keys  # type: ignore[assignment]  # the texts it was given
        operation.client.count += 1
        self.known[operation.op_id] = operation

    def complete(self, completions: Iterable[Completion]) -> list[int]:
        """Complete keys; how many operations each completed."""
        turn = self._turn
        counts = []
        for completion in completions:
            completing = Completing(bytes(completion.value), turn.now_ms, turn.counted)
            counts.append(self.purgatory.complete(completion.key, completing))
        return counts

    def cancel(self, op_ids: Iterable[str]) -> list[bool]:
        """Cancel operations; whether this did."""
        done = []
        for op_id in op_ids:
            operation = self.known.get(op_id)
            waits = isinstance(operation, Waiting) and self._turn.now_ms <= operation.due_ms
            done.append(waits and isinstance(operation, Waiting) and operation.cancel())
        return done

    def acknowledge(self, client: Client, seqs: Iterable[int]) -> None:
        """Outcomes need not be told again. Not undone: it is true whatever the disk does."""
        for seq in seqs:
            ended = client.unacknowledged.pop(seq, None)
            if ended is not None:
                self._let_go(ended)

    def outlive(self, before_ms: int) -> None:
        """Let go of outcomes that have been kept since before a moment."""
        for client in list(self.clients.values()):
            for seq, ended in list(client.unacknowledged.items()):
                if ended.ended_ms >= before_ms:
                    break
                del client.unacknowledged[seq]
                self._let_go(ended)
            self.drop_if_idle(client)

    def _let_go(self, ended: Ended) -> None:
        ended.client.count -= 1
        self.unacknowledged -= 1
        self._forgettable.append((self._turn.now_ms, ended))
        self.drop_if_idle(ended.client)

    def drop_if_idle(self, client: Client) -> None:
        """Forget a client that has nothing and is not there."""
        if not client.count and not client.connections:
            self.clients.pop(client.name, None)

    def journaled(self, position: Position) -> None:
        """Rows up to these numbers are safe in the journal, and no others."""
        self._kept = position
        self._blocked = False

    def forgettable_ms(self) -> int | None:
        """When acknowledged outcomes are to be forgotten; None: there are none."""
        waiting = self._forgettable
        if not waiting or self._blocked:
            return None
        return self._turn.now_ms if len(waiting) > KEEP else waiting[0][0] + KEEP_MS

    def forget(self, *, everything: bool = False) -> None:
        """Have acknowledged outcomes deleted with this turn: those that are kept long enough.

        After the turn's requests: an id that is forgotten may be used again in the next one.
        """
        turn = self._turn
        waiting = self._forgettable
        while waiting and (everything or len(turn.forgotten) < FORGET_AT_ONCE):
            acknowledged_ms, ended = waiting[0]
            young = acknowledged_ms + KEEP_MS > turn.now_ms and len(waiting) <= KEEP
            self._blocked = ended.number > self._kept.operations or ended.seq > self._kept.outcomes
            if self._blocked or (young and not everything):
                break
            waiting.popleft()
            self.known.pop(ended.op_id)
            turn.forgotten.append((acknowledged_ms, ended))
            turn.changes.forget_operations.append(ended.number)
            turn.changes.forget_outcomes.append(ended.seq)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Write down an end; called by the purgatory, whose journal the room is."""
        assert isinstance(operation, Waiting)
        if self._silent:
            return
        turn = self._turn
        self._seq = seq = self._seq + 1
        name = _name(outcome)
        at_ms = operation.due_ms if outcome is EXPIRED else turn.now_ms
        end = Ended(seq, operation.number, operation.op_id, operation.client, name, turn.now_ms)
        turn.ended.append((operation, end))
        result = result_of(operation)
        turn.changes.outcomes += (
            seq,
            operation.number,
            name,
            at_ms,
            turn.now_ms - at_ms,
            operation.by_key or "",
            "" if result is None else bytearray(result),
        )
        self._remember(end)

    def _remember(self, ended: Ended) -> None:
        self.known[ended.op_id] = ended
        ended.client.unacknowledged[ended.seq] = ended
        self.unacknowledged += 1

    def settle(self) -> None:
        """Complete the turn's changes, just before they are committed."""
        turn = self._turn
        for operation, key in turn.counted:
            assert operation.values is not None
            turn.changes.progress += (operation.number, key, bytearray(operation.values[key]))

    def undo(self) -> None:
        """Take back all that the turn did: its commit failed."""
        turn = self._turn
        self._silent = True
        try:
            for operation, key in turn.counted:
                assert operation.values is not None
                del operation.values[key]
            new = {operation.number for operation in turn.submitted}
            for operation, ended in turn.ended:
                self._revive(operation, ended, keep=operation.number not in new)
            for operation in turn.submitted:
                operation.cancel()
                self.known.pop(operation.op_id, None)
                operation.client.count -= 1
        finally:
            self._silent = False
        for _, ended in turn.forgotten:
            self.known[ended.op_id] = ended
        self._forgettable.extendleft(reversed(turn.forgotten))
        self._turn = Turn(turn.now_ms)

    def _revive(self, operation: Waiting, ended: Ended, *, keep: bool) -> None:
        if operation.client.unacknowledged.pop(ended.seq, None) is None:
            return  # acknowledged before it was told: no client of ours does that
        self.unacknowledged -= 1
        if keep:
            operation.client.count -= 1  # `_watch` counts it again
            self._watch(operation.again(self.clock.now_ms), operation.keys)

    def load(self, store: Store) -> None:
        """Fill an empty room with what is on disk. Raises StoreError."""
        self._number, self._seq = store.last()
        ends = {outcome.number: outcome for outcome in store.outcomes()}
        progress: dict[int, dict[str, bytes]] = {}
        for number, key, value in store.progress():
            progress.setdefault(number, {})[key] = value
        for row in store.operations():
            client = self.client(sys.intern(row.client))
            outcome = ends.pop(row.number, None)
            if outcome is None:
                self._load(client, row, progress)
                continue
            client.count += 1
            ended_ms = outcome.at_ms + outcome.lateness_ms
            self._remember(
                Ended(outcome.seq, row.number, row.op_id, client, outcome.outcome, ended_ms)
            )
        for client in self.clients.values():
            client.unacknowledged = dict(sorted(client.unacknowledged.items()))

    def _load(
        self, client: Client, row: StoredOperation, progress: dict[int, dict[str, bytes]]
    ) -> None:
        operation = Waiting(
            row.number,
            client,
            row.op_id,
            sys.intern(row.kind),
            row.submitted_ms,
            row.deadline_ms,
            row.need,
            row.payload is not None,
            self.clock.now_ms,
        )
        operation.values = progress.get(row.number)
        self._watch(operation, row.keys)


def result_of(operation: Waiting) -> bytes | None:
    """What an operation came to: a value, or a map of them if it needed several keys."""
    if operation.by_key is None:
        return None
    if operation.need > 1:
        values = operation.values or {}
        return encode({key: Raw(value) for key, value in values.items()})
    return None if operation.value == NOTHING else operation.value


def _name(outcome: Outcome) -> str:
    """Its value; of an enum's member that is a call, and here one for each end."""
    if outcome is COMPLETED:
        return "completed"
    return "expired" if outcome is EXPIRED else "cancelled"


def _state(entry: Waiting | Ended) -> str:
    return entry.outcome if isinstance(entry, Ended) else "pending"
