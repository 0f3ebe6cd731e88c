"""A server without threads, sockets and real time: a store loop that a test steps by hand."""

from pathlib import Path

import pytest

from purgatory.service.encoding import decode_answer, encode, unpack
from purgatory.service.job_messages import (
    Begin,
    CancelLeases,
    CountJobs,
    JobFilter,
    ListJobs,
    ReadJobs,
)
from purgatory.service.protocol import (
    NOTHING,
    Acknowledge,
    Cancel,
    Complete,
    Completion,
    Extend,
    Fail,
    Finish,
    How,
    Jobs,
    KeyFailure,
    Lease,
    LeaseEnd,
    Limits,
    Outcomes,
    Query,
    Raw,
    Submission,
    SubmissionOptions,
    Submit,
    TimeoutExtension,
    Work,
    own_key,
)
from purgatory.service.server.clock import ClockSources
from purgatory.service.server.commands import (
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    FetchOutcomes,
    JournalConfirmed,
    OutcomeFrame,
    TransactionReplies,
)
from purgatory.service.server.recovery import load_state, start_clock
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator
from purgatory.service.store.rows import JournalPosition
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.failing_disk import DiskFaults
from tests.testing.journal_rows import (
    JournalEvent,
    JournalExtension,
    JournalJob,
    JournalOperation,
    JournalOutcome,
)

START_MS = 1_000_000_000_000


class ManualTime:
    """The system's clocks, set by the test."""

    def __init__(self):
        self.ms = START_MS
        self.us = 0  # microseconds beyond
        self.wall_ms = 0  # how far the wall clock was set ahead
        self.boot = "boot 1"

    @property
    def ns(self):
        """The clock in nanoseconds."""
        return self.ms * 1_000_000 + self.us * 1000

    def sources(self):
        """Return what a `ServiceClock` reads."""
        return ClockSources(
            wall_ns=lambda: self.ns + self.wall_ms * 1_000_000,
            boot_ns=lambda: self.ns - (START_MS - 5_000) * 1_000_000,
            boot_id=lambda: self.boot,
        )


class RecordingSink:
    """A journal that keeps its rows in memory, and confirms when the test calls `confirm`."""

    def __init__(self, position=JournalPosition(0, 0)):  # noqa: B008  # immutable
        self.position = position
        self.operations = []
        self.outcomes = []
        self.events = []
        self.extensions = []
        self.jobs = []
        self.closed = False

    def start(self, source, confirm):
        """See `JournalSink`."""
        assert source.isalnum()
        self.confirm = confirm
        return self.position

    def write(self, operations, outcomes, events=(), extensions=(), jobs=()):
        """See `JournalSink`."""
        assert not self.closed
        self.operations += map(JournalOperation._make, operations)
        self.outcomes += map(JournalOutcome._make, outcomes)
        self.events += map(JournalEvent._make, events)
        self.extensions += map(JournalExtension._make, extensions)
        self.jobs += map(JournalJob._make, jobs)

    def close(self):
        """See `JournalSink`."""
        self.closed = True


def limits(**others):
    """Return limits that no test reaches, but for those given."""
    usual = {
        "message_bytes": 1 << 20,
        "keys": 10,
        "text_bytes": 1000,
        "payload_bytes": 1000,
        "pending_per_client": 10_000,
        "pending": 10_000,
        "timeout_ms": 10**9,
        "held": 10_000,
    }
    return Limits(**usual | others)


class StepServer:
    """Sends a store loop commands, runs its transactions and returns its replies.

    `path` is the database, None for one in memory; `others` are limits. `portion`: how many
    operations an event ends in one transaction.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        time: ManualTime | None = None,
        sink=None,
        max_memory=0,
        portion=None,
        **others,
    ):
        self.max_memory = max_memory
        self.portion = portion
        self.time = time or ManualTime()
        self.faults = DiskFaults()
        self.path = path
        self.sink = sink
        self.limits = limits(**others)
        self.seq = 0
        self.open()

    def open(self):
        """Start, or start again, from what is on disk."""
        self.sent = []  # commands to the network
        self.store = SqliteStore(self.path, connect=self.faults.connect)
        # `crash` is that of a process, which loses nothing that was written; so no need to sync.
        self.store._connection.execute("PRAGMA synchronous=OFF")
        try:
            self._start()
        except BaseException:
            self.store.close()
            raise

    def _start(self):
        clock = start_clock(self.store, self.time.sources())
        self.state = load_state(self.store, clock, None, self.max_memory)
        self.handler = RequestHandler(
            self.state, self.store, RequestValidator(self.limits), dict, "step"
        )
        self.store_loop = StoreLoop(
            self.state,
            self.store,
            clock,
            self.handler,
            send=self.sent.append,
            retention_ms=10**12,
            sink=self.sink,
        )
        if self.portion is not None:
            self.state.portion = self.portion
        # As much time as it takes, or a slow machine would make more steps of one.
        self.store_loop.requests.seconds = self.store_loop.read_seconds = 1000.0
        self.store_loop.start()

    def crash(self):
        """End as SIGKILL would, and start again."""
        self.store.close()
        self.open()

    def step(self, *, once=False):
        """Run a transaction; returns the replies and the outcomes that it sends, decoded.

        Then more of them while requests or reads wait, unless `once`.
        """
        for command in self.sent:
            if isinstance(command, JournalConfirmed):
                self.store_loop.mailbox.send(command)
        self.sent.clear()
        self.advance()
        while not once and (
            self.store_loop.requests.length
            or self.store_loop._reads.waiting
            or (self.state.spreads.in_order and not self.store_loop._commits.retry_ms)
            or self.state.mass_cancels.running
        ):
            if self.store_loop.failure is not None:
                break
            self.advance()
        replies, outcomes = [], []
        self.told = []  # routes, and what workers are told of their leases
        self.leased = []  # jobs, with the connections that have them in `routes`
        self.routes = {}
        for route, frame in [pair for command in self.sent for pair in frames_of(command)]:
            message = decode_answer(frame)
            if isinstance(message, Outcomes):
                outcomes += message.outcomes
            elif isinstance(message, Jobs):
                self.leased += message.jobs
                self.routes |= dict.fromkeys([job.token for job in message.jobs], route)
            elif isinstance(message, CancelLeases):
                self.told.append((route, message))
            else:
                replies.append(message)
        return replies, outcomes

    def advance(self):
        """Run a transaction."""
        self.store_loop.wait(0)
        self.store_loop.advance_clock()
        self.store_loop.send_replies()

    def send(self, command):
        """Send a command and run its transaction; returns the outcomes it sends."""
        self.store_loop.mailbox.send(command)
        return self.step()[1]

    def hello(self, client="c"):
        """Connect a client."""
        self.send(ClientConnected(b"r", client, 0))

    def bye(self, client="c"):
        """Disconnect it."""
        self.send(ClientDisconnected(client, b"r"))

    def fetch_outcomes(self, client="c", after=0):
        """Ask for outcomes as the network does for a new connection."""
        return self.send(FetchOutcomes(b"r", client, after))

    def post(self, request, *args, client="c", session="", seq=None, size=1, route=b"", key=""):
        """Put a request of so many bytes into the next transaction.

        `route`: that of the client's connection, by default one of its own.
        """
        self.seq += 1
        route = route or (b"r" if client == "c" else client.encode())
        message = request(self.seq if seq is None else seq, *args)
        self.store_loop.mailbox.send(ClientRequest(route, client, message, size, session, key=key))

    def ask(self, request, *args, **others):
        """Run a transaction of one request; returns its reply."""
        self.post(request, *args, **others)
        [reply] = self.step()[0]
        return reply

    def dead(self, client="c"):
        """Return the dead jobs of a client."""
        return self.ask(ListJobs, JobFilter(state="dead", client=client)).jobs

    def submit(self, *operations, client="c"):
        """Submit operations; returns the reply."""
        return self.ask(Submit, list(operations), client=client)

    def complete(self, key, value=None, limit=None, hold_ms=0):
        """Complete a key; returns the reply."""
        return self.ask(Complete, [Completion(key, Raw(encode(value)), limit, hold_ms)])

    def fail(self, key, error_type="Error", message="why"):
        """Fail a key; returns the reply."""
        return self.ask(Fail, [KeyFailure(key, error_type, message)])

    def extend(self, op_id, timeout_ms):
        """Extend an operation; returns the reply."""
        return self.ask(Extend, [TimeoutExtension(op_id, timeout_ms)])

    def complete_and_push(self, key, value=None):
        """Complete a key; returns how many operations that completed, and the outcomes pushed."""
        self.post(Complete, [Completion(key, Raw(encode(value)))])
        [reply], outcomes = self.step()
        return reply.counts[0], outcomes

    def cancel(self, op_id):
        """Cancel an operation; returns the reply."""
        return self.ask(Cancel, [op_id])

    def work(
        self,
        *kinds,
        route=b"w",
        client="c",
        room=8,
        lease_ms=60_000,
        attempts=3,
        detached=False,
        kind_rooms=None,
        begins=False,
    ):
        """Have jobs leased to a connection; returns those that it is given."""
        self.seq += 1
        wanted = dict.fromkeys(kinds or ("",), attempts)
        message = Work(self.seq, wanted, room, lease_ms, detached, kind_rooms or {}, begins)
        self.store_loop.mailbox.send(ClientRequest(route, client, message, 1))
        self.step()
        return self.leased

    def begin(self, *jobs, client="c"):
        """Tell the server that the handlers of jobs have begun; there is no answer."""
        self.post(Begin, [Lease(job.number, job.token) for job in jobs], client=client)
        assert self.step()[0] == []

    def due_job(self, op_id):
        """Return a job that is due, as the server has it in memory."""
        jobs = self.state.leases.by_number.values()
        return next(job for job in jobs if job.record.op_id == op_id)

    def change_jobs(self, change):
        """Call `change` with the `LeaseEnds` of a transaction, and commit that; returns its result.

        As a request does whose handler is not here.
        """
        transaction = Transaction(self.state, self.store_loop.clock.now_ns())
        found = change(transaction.jobs.lease_ends)
        transaction.prepare()
        self.store.commit(transaction.changes)
        transaction.publish()
        self.step()
        return found

    def post_finish(self, job, how=How.DONE, delay_ms=0, result=NOTHING):
        """Put the end of a lease into the next transaction."""
        self.post(Finish, [LeaseEnd(job.number, job.token, how, delay_ms, "", Raw(result))])

    def finish(self, *jobs, how=How.DONE, delay_ms=0, error="", client="c", result=NOTHING):
        """End the leases of jobs; returns for each whether it lasted until now."""
        ends = [LeaseEnd(job.number, job.token, how, delay_ms, error, Raw(result)) for job in jobs]
        return self.ask(Finish, ends, client=client).done

    def job(self, job_id):
        """Return the status of a job."""
        return self.ask(ReadJobs, [job_id]).jobs[0]

    def job_states(self, *job_ids):
        """Return the states of jobs."""
        return [one.state for one in self.ask(ReadJobs, list(job_ids)).jobs]

    def job_counts(self):
        """Return how many jobs there are, by kind and state."""
        counts = self.ask(CountJobs).counts
        return {(kind, state): count for kind, state, count in counts}

    def query(self, op_id):
        """Return the state of an operation."""
        return self.ask(Query, [op_id]).states[0]

    def acknowledge(self, *numbers, client="c"):
        """Acknowledge outcomes."""
        self.post(Acknowledge, list(numbers), client=client)
        return self.step()

    def pass_time(self, ms):
        """Move the clocks and expire what is due; returns the outcomes pushed."""
        self.time.ms += ms
        return self.step()[1]

    def let_pass(self, ms):
        """Move the clocks while the server runs: it looks each 100 ms; returns what was leased."""
        leased = []
        for start in range(0, ms, 100):
            self.pass_time(min(100, ms - start))
            leased += self.leased
        return leased

    def pass_us(self, us):
        """Move the clocks by microseconds; returns the outcomes pushed."""
        self.time.us += us
        return self.pass_time(0)


def frames_of(command):
    """Return the frames of a command to the network, each with its route."""
    if isinstance(command, TransactionReplies):
        return command.replies + [
            (b"", push.frame) for push in command.pushes if push.frame is not None
        ]
    if isinstance(command, OutcomeFrame) and command.frame is not None:
        return [(command.route, command.frame)]
    return []


def operation(op_id, *keys, timeout_ms=1000, need=1, kind="", payload=None):
    """Return a submission; its key is "OP_ID's key" unless others are given."""
    packed = NOTHING if payload is None else encode(payload)
    return Submission(
        op_id, tuple(keys) or (f"{op_id}'s key",), timeout_ms, need, kind, Raw(packed)
    )


def nested(levels):
    """Return a value of so many lists in each other."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def job(op_id, *keys, timeout_ms=1000, kind="", payload=None, **options):
    """Return the submission of a job; without keys none cancels it.

    `options`: fields of `SubmissionOptions`.
    """
    made = operation(
        op_id,
        *(keys or (own_key(op_id),)),
        timeout_ms=timeout_ms,
        need=0,
        kind=kind,
        payload=payload,
    )
    if options:
        made.options = SubmissionOptions(**options)
    return made


def result(outcome):
    """Return the value of an outcome."""
    return unpack(outcome.result)


@pytest.fixture
def step_server(tmp_path):
    """A `StepServer` on disk, with the client "c" connected."""
    server = StepServer(tmp_path / "a.db")
    server.hello()
    yield server
    server.store.close()
