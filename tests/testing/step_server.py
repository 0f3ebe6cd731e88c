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
from purgatory.service.server.clock import ServiceClock, Sources
from purgatory.service.server.commands import Asked, Attach, Deliver, Detach, More, Told
from purgatory.service.server.request_handler import Desk
from purgatory.service.server.state import Room
from purgatory.service.server.store_loop import Keeper
from purgatory.service.server.validation import Checks
from purgatory.service.store.store import Store
from tests.testing.failing_disk import Faults

START_MS = 1_000_000_000_000


class Time:
    """Clocks that are moved by hand."""

    def __init__(self):
        self.ms = START_MS
        self.wall_ms = 0  # more than the time since boot says
        self.boot = "boot 1"

    def sources(self):
        """What a `ServiceClock` reads."""
        return Sources(
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


class Inline:
    """Asks a keeper and returns its answers."""

    def __init__(self, path: Path | None, *, time: Time | None = None, sink=None, **others):
        self.time = time or Time()
        self.faults = Faults()
        self.path = path
        self.sink = sink
        self.limits = limits(**others)
        self.seq = 0
        self.open()

    def open(self):
        """Start, or start again, from what is on disk."""
        self.told = []  # commands to the network
        self.store = Store(self.path, connect=self.faults.connect)
        # These crashes are the process's, not the machine's.
        self.store._connection.execute("PRAGMA synchronous=OFF")
        clock = ServiceClock(self.store.meta(), self.time.sources())
        if clock.shift_ms:
            self.store.shift(clock.shift_ms, clock.facts())
        else:
            self.store.set_meta(clock.facts())
        since = self.store.since_ms()
        now = clock.now_ms()
        self.room = Room("inline", Checks(self.limits), now if since is None else min(now, since))
        self.room.load(self.store)
        self.desk = Desk(self.room, self.store, dict, "inline")
        self.keeper = Keeper(
            self.room,
            self.store,
            clock,
            self.desk,
            tell=self.told.append,
            retention_ms=10**12,
            sink=self.sink,
        )
        self.keeper.start()

    def crash(self):
        """End as SIGKILL would, and start again."""
        self.store.close()
        self.open()

    def step(self):
        """A turn; returns what it told, the frames decoded: answers, and outcomes pushed."""
        self.told.clear()
        self.keeper.wait(0)
        self.keeper.advance_clock()
        self.keeper.tell()
        answers, outcomes = [], []
        for command in self.told:
            if isinstance(command, Deliver):
                messages = [decode_answer(frame) for _, frame in command.answers]
                messages += [decode_answer(push.frame) for push in command.pushes]
                for message in messages:
                    if isinstance(message, Outcomes):
                        outcomes += message.outcomes
                    else:
                        answers.append(message)
            elif isinstance(command, Told) and command.frame is not None:
                outcomes += decode_answer(command.frame).outcomes
        return answers, outcomes

    def hello(self, client="c"):
        """Have a client connected."""
        self.keeper.mailbox.send(Attach(b"r", client, 0))
        self.step()

    def bye(self, client="c"):
        """Have it gone."""
        self.keeper.mailbox.send(Detach(client))
        self.step()

    def more(self, client="c", after=0):
        """Ask for outcomes as a new connection does."""
        self.keeper.mailbox.send(More(b"r", client, after))
        return self.step()[1]

    def post(self, request, *args, client="c"):
        """Put a request into the next turn."""
        self.seq += 1
        message = request(self.seq, *args)
        self.keeper.mailbox.send(Asked(b"r", client, message, 1))

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
