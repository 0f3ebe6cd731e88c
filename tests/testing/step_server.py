"""A server without threads, sockets and real time: a keeper that is stepped by hand."""

from pathlib import Path

from purgatory.service.protocol import (
    NOTHING,
    Acknowledge,
    Cancel,
    Complete,
    Completion,
    Limits,
    Outcomes,
    Query,
    Raw,
    Submission,
    Submit,
    decode_answer,
    encode,
    unpack,
)
from purgatory.service.server.clock import ClockSources, ServiceClock
from purgatory.service.server.commands import (
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    FetchOutcomes,
    OutcomeFrame,
    TransactionReplies,
)
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.state import ServerState
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.validation import RequestValidator
from purgatory.service.store.store import Store
from tests.testing.failing_disk import DiskFaults

START_MS = 1_000_000_000_000


class ManualTime:
    """Clocks that are moved by hand."""

    def __init__(self):
        self.ms = START_MS
        self.wall_ms = 0  # more than the time since boot says
        self.boot = "boot 1"

    def sources(self):
        """What a `ServiceClock` reads."""
        return ClockSources(
            wall_ns=lambda: (self.ms + self.wall_ms) * 1_000_000,
            boot_ns=lambda: (self.ms - START_MS + 5_000) * 1_000_000,
            boot_id=lambda: self.boot,
        )


def limits(**others):
    """Limits that are in nobody's way."""
    usual = {
        "message_bytes": 1 << 20,
        "keys": 10,
        "text_bytes": 1000,
        "payload_bytes": 1000,
        "pending_per_client": 10_000,
        "pending": 10_000,
        "timeout_ms": 10**9,
    }
    return Limits(**usual | others)


class StepServer:
    """Asks a keeper and returns its answers."""

    def __init__(self, path: Path | None, *, time: ManualTime | None = None, sink=None, **others):
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
        self.store = Store(self.path, connect=self.faults.connect)
        # These crashes are the process's, not the machine's.
        self.store._connection.execute("PRAGMA synchronous=OFF")
        clock = ServiceClock(self.store.metadata(), self.time.sources())
        if clock.shift_ms:
            self.store.shift_times(clock.shift_ms, clock.metadata())
        else:
            self.store.set_metadata(clock.metadata())
        since = self.store.oldest_submission_ms()
        now = clock.now_ms()
        self.state = ServerState(
            "inline", RequestValidator(self.limits), now if since is None else min(now, since)
        )
        self.state.load(self.store)
        self.handler = RequestHandler(self.state, self.store, dict, "inline")
        self.store_loop = StoreLoop(
            self.state,
            self.store,
            clock,
            self.handler,
            send=self.sent.append,
            retention_ms=10**12,
            sink=self.sink,
        )
        self.store_loop.start()

    def crash(self):
        """End as SIGKILL would, and start again."""
        self.store.close()
        self.open()

    def step(self):
        """A turn; returns what it told, the frames decoded: answers, and outcomes pushed."""
        self.sent.clear()
        self.store_loop.wait(0)
        self.store_loop.advance_clock()
        self.store_loop.send_replies()
        answers, outcomes = [], []
        for command in self.sent:
            if isinstance(command, TransactionReplies):
                messages = [decode_answer(frame) for _, frame in command.replies]
                messages += [decode_answer(push.frame) for push in command.pushes]
                for message in messages:
                    if isinstance(message, Outcomes):
                        outcomes += message.outcomes
                    else:
                        answers.append(message)
            elif isinstance(command, OutcomeFrame) and command.frame is not None:
                outcomes += decode_answer(command.frame).outcomes
        return answers, outcomes

    def hello(self, client="c"):
        """Have a client connected."""
        self.store_loop.mailbox.send(ClientConnected(b"r", client, 0))
        self.step()

    def bye(self, client="c"):
        """Have it gone."""
        self.store_loop.mailbox.send(ClientDisconnected(client))
        self.step()

    def fetch_outcomes(self, client="c", after=0):
        """Ask for outcomes as a new connection does."""
        self.store_loop.mailbox.send(FetchOutcomes(b"r", client, after))
        return self.step()[1]

    def post(self, request, *args, client="c"):
        """Put a request into the next turn."""
        self.seq += 1
        message = request(self.seq, *args)
        self.store_loop.mailbox.send(ClientRequest(b"r", client, message, 1))

    def ask(self, request, *args, client="c"):
        """A turn with one request; its answer."""
        self.post(request, *args, client=client)
        [answer] = self.step()[0]
        return answer

    def submit(self, *operations, client="c"):
        """Submit operations."""
        return self.ask(Submit, list(operations), client=client)

    def complete(self, key, value=None):
        """Complete a key."""
        return self.ask(Complete, [Completion(key, Raw(encode(value)))])

    def cancel(self, op_id):
        """Cancel an operation."""
        return self.ask(Cancel, [op_id])

    def query(self, op_id):
        """The state of an operation."""
        return self.ask(Query, [op_id]).states[0]

    def acknowledge(self, *numbers, client="c"):
        """Acknowledge outcomes."""
        self.post(Acknowledge, list(numbers), client=client)
        return self.step()

    def pass_time(self, ms):
        """Let time pass, and do what is due; the outcomes."""
        self.time.ms += ms
        return self.step()[1]


def operation(op_id, *keys, timeout_ms=1000, need=1, kind="", payload=None):
    """A submission."""
    packed = NOTHING if payload is None else encode(payload)
    return Submission(
        op_id, tuple(keys) or (f"{op_id}'s key",), timeout_ms, need, kind, Raw(packed)
    )


def result(outcome):
    """The value of an outcome."""
    return unpack(outcome.result)
