"""PendingReads: answers requests that change nothing, in portions between transactions.

A query of many ids reads many rows, and outcomes can be large. So the store thread reads for a
bounded time after each transaction, and the clients take turns. A read sees everything committed
before its answer. Store thread alone.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from purgatory.service.encoding import encode
from purgatory.service.errors import TooManyReads, refusal_of
from purgatory.service.job_messages import CountJobs, ListJobs, ReadJobs, ReadOverview, WatchJobs
from purgatory.service.protocol import (
    Failure,
    OutcomeMessage,
    Outcomes,
    Query,
    ReadOperations,
    Request,
    States,
    Stats,
    StatsReply,
    Unread,
    UnreadOutcomes,
)
from purgatory.service.server.commands import (
    ClientDisconnected,
    ClientRequest,
    FetchOutcomes,
    NetworkCommand,
    OutcomeFrame,
    TransactionReplies,
)
from purgatory.service.server.fair_queue import FairQueue
from purgatory.service.server.jobs.job_answers import JobAnswers
from purgatory.service.server.reads.outcome_frames import MAX_OUTCOMES_PER_FRAME, first_outcomes
from purgatory.service.server.reads.remembered_answers import RememberedOutcome, RememberedReader
from purgatory.service.server.reads.status_answers import answer_ids, answer_list, look_up
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store

log: logging.Logger = logging.getLogger(__name__)

#: Remembered outcomes in a frame: each may have payload and result.
REMEMBERED_AT_ONCE: Final = 8

#: Waiting reads of a client; bytes of all waiting requests.
READS_PER_CLIENT: Final = 256
READ_BYTES: Final = 8 << 20
#: Outcomes that wait to be repeated to a connection, and to all. A client that has lost its
#: connection submits up to 32 messages again.
REPEATED_PER_CONNECTION = 1 << 16
REPEATED = 1 << 18

_Answer = Iterator[NetworkCommand | None]
#: Answers a request: yields None after each portion, then the frame.
Portions = Callable[[ClientRequest, Any], Iterator[bytes | None]]


class PendingReads:
    """The waiting reads.

    `stats` answers a `Stats` request. An answer about several ids has at most `max_bytes`.
    """

    def __init__(
        self, state: ServerState, store: Store, stats: Callable[[], dict[str, Any]], max_bytes: int
    ) -> None:
        self._state = state
        self._store = store
        self._remembered = RememberedReader(state, store)
        self._make_stats = stats
        self._max_bytes = max_bytes
        self._queue: FairQueue[ClientRequest | FetchOutcomes | ClientDisconnected] = FairQueue()
        self._bytes = 0  # of the requests in the queue
        self._current: _Answer | None = None
        self._asked: ClientRequest | FetchOutcomes  # of `_current`
        self._stats: dict[str, Any] | None = None  # the same for a run
        self._closed = False
        self.waiting: bool = False
        self.repeated: RepeatedOutcomes = RepeatedOutcomes()
        self.jobs: JobAnswers = JobAnswers(state, store, max_bytes)
        jobs = self.jobs
        self.answers: dict[type[Request], Portions] = {
            Query: self._query,
            Unread: self._unread,
            ReadOperations: self._list,
            Stats: self._answer_stats,
            ReadJobs: jobs.read,
            WatchJobs: jobs.watch,
            ListJobs: jobs.page,
            CountJobs: jobs.count,
            ReadOverview: jobs.overview,
        }

    def add(self, request: ClientRequest) -> None:
        """Queue a request. Raises TooManyReads."""
        waiting = self._queue.count(request.client, request.route)
        if waiting >= READS_PER_CLIENT or (waiting and self._bytes >= READ_BYTES):
            raise TooManyReads(
                f"{waiting} queries of {request.client!r} wait; expected at most {READS_PER_CLIENT}"
            )
        if not self._closed:
            self._bytes += request.size
            self._append(request)

    def fetch(self, command: FetchOutcomes) -> None:
        """Queue the reading of a frame of outcomes."""
        if not self._closed:
            self._append(command)

    def _append(self, command: ClientRequest | FetchOutcomes) -> None:
        self._queue.append(command.client, command, route=command.route, key=command.key)
        self.waiting = True

    def repeat(self, asked: ClientRequest, records: list[OutcomeRecord]) -> None:
        """Send a connection outcomes again, a frame at a time."""
        route = asked.route
        if self.repeated.add(route, records):
            self.fetch(FetchOutcomes(route, asked.client, 0, repeated=True, key=asked.key))

    def disconnect(self, gone: ClientDisconnected) -> None:
        """Forget a connection, now and after its waiting reads: one may begin to watch jobs."""
        self.repeated.forget(gone.route)
        self._state.jobs.watches.forget(gone.route)
        if self._queue.count(gone.client, gone.route):
            self._queue.append(gone.client, gone, route=gone.route)

    def close(self) -> None:
        """Drop all reads, and accept no more."""
        self._closed = True
        self.waiting = False
        self._queue = FairQueue()
        self._current = None

    def run(self, seconds: float) -> list[NetworkCommand]:
        """Answer reads for about `seconds`, a portion at least."""
        answers: list[NetworkCommand] = []
        self._stats = None
        end = time.perf_counter() + seconds
        while self.waiting:
            if self._current is None:
                self._current = self._begin(self._queue.popleft())
            try:
                answer = next(self._current, _DONE)
            except Exception as error:  # noqa: BLE001  # a read changes nothing: others continue
                answers.append(self._refuse(self._asked, error))
                answer = _DONE
            if answer is _DONE:
                self._current = None
                self.waiting = self._queue.length > 0
            elif answer is not None:
                answers.append(answer)
            if time.perf_counter() >= end:
                break
        return answers

    def _refuse(self, command: ClientRequest | FetchOutcomes, error: Exception) -> NetworkCommand:
        """Answer a failed read. Raises the error if it shows damage."""
        refusal = refusal_of(error)
        log.error("a read of client %r has failed", command.client, exc_info=error)
        if isinstance(command, FetchOutcomes):  # the client's next connection fetches them
            self.repeated.forget(command.route)
            return OutcomeFrame(command.route, None, command.after, repeated=command.repeated)
        frame = encode(Failure(command.request.seq, refusal.code, str(refusal)))
        return TransactionReplies([(command.route, frame)], [], 0)

    def _begin(self, command: ClientRequest | FetchOutcomes | ClientDisconnected) -> _Answer:
        if isinstance(command, ClientDisconnected):
            self._state.jobs.watches.forget(command.route)
            return iter(())
        self._asked = command
        if isinstance(command, FetchOutcomes):
            return self._fetch_repeated(command) if command.repeated else self._fetch(command)
        self._bytes -= command.size
        return self._answer(command)

    def _answer(self, command: ClientRequest) -> _Answer:
        for frame in self.answers[type(command.request)](command, command.request):
            yield None if frame is None else TransactionReplies([(command.route, frame)], [], 0)

    def _query(self, command: ClientRequest, request: Query) -> Iterator[bytes | None]:
        find = partial(look_up, command.owner, self._state, self._remembered, self._store)
        return answer_ids(States, request.seq, request.op_ids, find, self._max_bytes)

    def _unread(self, command: ClientRequest, request: Unread) -> Iterator[bytes | None]:
        outcomes = yield from self._next_outcomes(command.client, request.after)
        yield encode(UnreadOutcomes(request.seq, outcomes))

    def _list(self, command: ClientRequest, request: ReadOperations) -> Iterator[bytes | None]:
        return answer_list(request, command.owner, self._state, self._store)

    def _answer_stats(self, _: ClientRequest, request: Stats) -> Iterator[bytes | None]:
        if self._stats is None:
            self._stats = self._make_stats()
        yield encode(StatsReply(request.seq, self._stats))

    def _fetch(self, command: FetchOutcomes) -> _Answer:
        outcomes = yield from self._next_outcomes(command.client, command.after)
        if outcomes:
            frame = encode(Outcomes(outcomes))
            yield OutcomeFrame(command.route, frame, outcomes[-1].number)
        else:
            yield OutcomeFrame(command.route, None, command.after)

    def _next_outcomes(self, name: str, after: int) -> Generator[None, None, list[OutcomeMessage]]:
        """Return a frame of a client's outcomes beyond `after`; empty without any."""
        client = self._state.clients.by_name.get(name)
        # None: disconnected meanwhile.
        while client is not None and (seqs := client.seqs_after(after, MAX_OUTCOMES_PER_FRAME)):
            found = client.unacknowledged
            if records := [found[seq] for seq in seqs if seq in found]:
                return (yield from first_outcomes(self._store, records))
            after = seqs[-1]
        return []

    def _fetch_repeated(self, command: FetchOutcomes) -> _Answer:
        route = command.route
        while records := self.repeated.next_of(route, MAX_OUTCOMES_PER_FRAME):
            if isinstance(records[0], RememberedOutcome):
                outcomes = self._next_remembered(route, records)
            else:
                outcomes = yield from self._next_kept(route, records)
            if outcomes:
                frame = encode(Outcomes(outcomes))
                yield OutcomeFrame(route, frame, outcomes[-1].number, repeated=True)
                return
            yield None
        self.repeated.forget(route)

    def _next_remembered(self, route: bytes, records: list[OutcomeRecord]) -> list[OutcomeMessage]:
        first = takewhile(lambda record: isinstance(record, RememberedOutcome), records)
        portion = [one for one in first if isinstance(one, RememberedOutcome)][:REMEMBERED_AT_ONCE]
        self.repeated.remove(route, [record.seq for record in portion])
        return self._remembered.outcomes(portion)

    def _next_kept(
        self, route: bytes, records: list[OutcomeRecord]
    ) -> Generator[None, None, list[OutcomeMessage]]:
        kept = [record for record in records if not isinstance(record, RememberedOutcome)]
        known = self._state.known
        present = [record for record in kept if known.get(record.op_id) is record]
        outcomes = yield from first_outcomes(self._store, present)
        sent = [outcome.number for outcome in outcomes]
        self.repeated.remove(route, sent or [record.seq for record in kept])
        return outcomes


class RepeatedOutcomes:
    """The outcomes requested by submitting again; read when the last frame was taken."""

    def __init__(self) -> None:
        self.by_route: dict[bytes, OrderedDict[int, OutcomeRecord]] = {}
        self.count: int = 0

    def check_room(self, route: bytes) -> None:
        """Raise TooManyReads if too many outcomes wait."""
        waiting = len(self.by_route.get(route, ()))
        if waiting >= REPEATED_PER_CONNECTION or (waiting and self.count >= REPEATED):
            raise TooManyReads(
                f"{waiting} outcomes wait to be sent again on this connection; read them first"
            )

    def add(self, route: bytes, records: Iterable[OutcomeRecord]) -> bool:
        """Add outcomes; whether none waited for the connection."""
        known = self.by_route.get(route)
        waiting = self.by_route.setdefault(route, OrderedDict())
        before = len(waiting)
        for record in records:
            waiting[record.seq] = record
        self.count += len(waiting) - before
        return known is None

    def next_of(self, route: bytes, limit: int) -> list[OutcomeRecord]:
        """Return up to `limit` outcomes, in order."""
        return list(islice(self.by_route.get(route, {}).values(), limit))

    def remove(self, route: bytes, seqs: Iterable[int]) -> None:
        """Remove some outcomes."""
        waiting = self.by_route.get(route, OrderedDict())
        for seq in seqs:
            if waiting.pop(seq, None) is not None:
                self.count -= 1

    def forget(self, route: bytes) -> None:
        """Remove a connection's outcomes."""
        self.count -= len(self.by_route.pop(route, ()))


_DONE: Final = OutcomeFrame(b"", None, 0)
