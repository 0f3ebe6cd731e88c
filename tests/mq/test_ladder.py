"""The ladder - YQueue, YPipe, ConflatePipe - against plain lists, and the mailbox under stress."""

import sys
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mq import Empty, Mailbox, YPipe, YQueue
from mq.conflate import ConflatePipe

PATIENCE = 60.0  # seconds: only a hang takes so long
SENDERS = 8
COMMANDS = 1_000_000


class QueueMachine(RuleBasedStateMachine):
    """A queue of small chunks, so that their borders and the spare one are met all the time."""

    @initialize(chunk_size=st.integers(1, 4))
    def make(self, chunk_size):
        self.queue, self.model = YQueue(chunk_size), []
        self.pushed = self.popped = 0

    @rule(count=st.integers(1, 9))
    def push(self, count):
        for _ in range(count):
            value = object()
            self.queue.push(value)
            self.model.append(value)
            self.pushed += 1

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 9))
    def pop(self, count):
        for _ in range(min(count, len(self.model))):
            assert self.queue.peek() is self.model[0]
            assert self.queue.pop() is self.model.pop(0)
            self.popped += 1

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 9))
    def unpush(self, count):
        for _ in range(min(count, len(self.model))):
            assert self.queue.unpush() is self.model.pop()
            self.pushed -= 1

    @invariant()
    def positions(self):
        if hasattr(self, "queue"):
            assert (self.queue.front, self.queue.back) == (self.popped, self.pushed)


class PipeMachine(RuleBasedStateMachine):
    """A pipe and the three lists it is made of, seen from both of its ends."""

    @initialize(chunk_size=st.integers(1, 3))
    def make(self, chunk_size):
        self.pipe = YPipe(chunk_size)
        self.flushed, self.complete, self.incomplete = [], [], []
        self.prefetched = self.count = 0
        self.asleep = False

    @rule(incomplete=st.booleans())
    def write(self, incomplete):
        self.pipe.write(self.count, incomplete)
        self.incomplete.append(self.count)
        self.count += 1
        if not incomplete:
            self.complete += self.incomplete
            self.incomplete = []

    @rule()
    def unwrite(self):
        if self.incomplete:
            assert self.pipe.unwrite() == self.incomplete.pop()
        else:
            with pytest.raises(Empty):
                self.pipe.unwrite()

    @rule()
    def flush(self):
        assert self.pipe.flush() is not (self.asleep and bool(self.complete))
        self.asleep = self.asleep and not self.complete
        self.flushed += self.complete
        self.complete = []

    @rule()
    def peek(self):
        # `peek` may not see what a check has fetched in advance, and puts nobody to sleep.
        if self.pipe.peek():
            assert self.flushed
        assert self.pipe.peek() or len(self.flushed) == 0

    def look(self):
        """What any look of the reader does: prefetch, or fall asleep."""
        if self.prefetched == 0:
            self.prefetched = len(self.flushed)
        self.asleep = self.asleep or not self.flushed

    @rule()
    def check_read(self):
        self.look()
        assert self.pipe.check_read() is bool(self.flushed)

    @rule()
    def probe(self):
        self.look()
        if self.flushed:
            assert self.pipe.probe() == self.flushed[0]
        else:
            with pytest.raises(Empty):
                self.pipe.probe()

    @rule()
    def read(self):
        self.look()
        if self.flushed:
            assert self.pipe.read() == self.flushed.pop(0)
            self.prefetched -= 1
        else:
            with pytest.raises(Empty):
                self.pipe.read()

    @invariant()
    def consistent(self):
        if not hasattr(self, "pipe"):
            return
        self.pipe._check()
        assert self.pipe.asleep is self.asleep
        assert self.pipe._r - self.pipe._queue.front == self.prefetched


class ConflateMachine(RuleBasedStateMachine):
    """A conflating pipe and the last thing written, if it was not read."""

    def __init__(self):
        super().__init__()
        self.pipe, self.model = ConflatePipe(), []

    @rule(value=st.integers(), incomplete=st.booleans())
    def write(self, value, incomplete):
        self.pipe.write(value, incomplete)
        self.model = [value]

    @rule()
    def flush(self):
        assert self.pipe.flush() is False

    @rule()
    def unwrite(self):
        with pytest.raises(Empty):
            self.pipe.unwrite()

    @rule(take=st.booleans())
    def look(self, take):
        assert self.pipe.check_read() is bool(self.model)
        operation = self.pipe.read if take else self.pipe.probe
        if not self.model:
            with pytest.raises(Empty):
                operation()
        else:
            assert operation() == self.model[0]
            if take:
                self.model = []


SETTINGS = settings(deadline=None, max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize("machine", [QueueMachine, PipeMachine, ConflateMachine])
def test_against_lists(machine):
    """Whatever the order of operations, what they return is what a plain list would."""
    run_state_machine_as_test(machine, settings=SETTINGS)


@pytest.fixture
def restless():
    """Threads that take turns a hundred times as often as they normally do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(count, run):
    """Start `run(0)` to `run(count - 1)`, each in a thread; returns the threads."""
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_pipe_between_two_threads(restless):
    """A reader that sleeps when told to, and is woken when the writer owes it, gets all."""
    pipe, wake, total = YPipe(4), threading.Semaphore(0), 50_000

    def write(_):
        for number in range(total):
            pipe.write((number, "head"), incomplete=True)
            pipe.write((number, "body"))
            if not pipe.flush():
                wake.release()

    (writer,) = in_threads(1, write)
    for number in range(total):
        for part in ("head", "body"):
            while not pipe.check_read():
                assert part == "head", "half a message was readable"
                assert wake.acquire(timeout=PATIENCE)
                assert pipe._c is not None, "woken, and still counted as asleep"
            assert pipe.read() == (number, part)
    writer.join()
    assert not pipe.check_read()
    assert not wake.acquire(blocking=False), "a signal that nobody was owed"


def test_conflating_pipe_between_two_threads(restless):
    """What is read never goes backwards, and the last message is always read."""
    pipe, total = ConflatePipe(), 50_000

    def write(_):
        for number in range(total):
            pipe.write(number)

    (writer,) = in_threads(1, write)
    last = -1
    while last < total - 1:
        if pipe.check_read():
            value = pipe.read()
            assert value > last
            last = value
    writer.join()
    assert not pipe.check_read()


def test_a_million_commands_of_eight_senders(restless):
    """Each command arrives exactly once, and those of one sender in the order of sending."""
    mailbox = Mailbox()
    each = COMMANDS // SENDERS

    def run(sender):
        for number in range(sender, each * SENDERS, SENDERS):
            mailbox.send(number)

    threads = in_threads(SENDERS, run)
    expected = list(range(SENDERS))
    for _ in range(COMMANDS):
        number = mailbox.recv(PATIENCE)
        sender = number % SENDERS
        assert number == expected[sender]
        expected[sender] = number + SENDERS
    for thread in threads:
        thread.join()
    assert mailbox.recv(0) is None
    assert (mailbox.sent, mailbox.received, mailbox.depth) == (COMMANDS, COMMANDS, 0)
    mailbox.close()
