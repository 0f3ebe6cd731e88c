"""Every order in which the lines of YPipe and Mailbox can run, in two threads and in three.

What is shown, for small programs, whatever the order: nothing is lost, doubled or out of order; no
reader waits for ever while something is there; a pipe's reader is owed at most one signal.

That the exploration sees mistakes is shown as well: for each of the MUTANTS the same programs run
on the source with one slip in it, two steps swapped or a lock left out, and must fail.  The source
is read from the package's files, which may be compiled besides.
"""

from pathlib import Path

import pytest

import mq
from tests.testing.interleaving_explorer import (
    BadInterleaving,
    InterleavingExplorer,
    Scenario,
    load,
    replaced,
    swapped,
)

PACKAGE = Path(mq.__file__).parent / "queues"
YQUEUE, YPIPE, MAILBOX = (PACKAGE / f"{name}.py" for name in ("yqueue", "ypipe", "mailbox"))
# Names that one thread uses or no thread changes; every other name counts as shared.
PRIVATE = {
    YQUEUE: "self queue chunk position index value new _size _back _front _back_chunk _front_chunk"
    " IndexError _Chunk assert AssertionError",
    YPIPE: "self queue value incomplete limit awake front flushed push pop check_read Empty"
    " _queue _back _front _w _f _r _lock ASLEEP _publish _prefetch",
    MAILBOX: "self command timeout deadline remaining sleep real_seconds MailboxClosed msg"
    " IndexError _received _wait _wait_until _recheck _forks FORK_COUNTER value GIL _closed_error",
}
# These change only when a mailbox is closed.
UNLESS_CLOSED = "_signaler signaler"
# Likewise the names that matter in the programs below; what they call stops by itself.
SHARED = ("signal", "_signaler")


class Signal:
    """A Signaler whose reader waits in the scheduler.  A timeout passes at once."""

    __slots__ = ("_explorer", "exclusive", "signalled")

    def __init__(self, explorer, exclusive=False):
        self._explorer = explorer
        self.exclusive = exclusive
        self.signalled = False

    def send(self):
        assert not (self.exclusive and self.signalled), "two signals are outstanding"
        self.signalled = True

    def wait(self, timeout=None):
        while not self.signalled and timeout is None:
            self._explorer.wait_until(lambda: self.signalled)
        return self.signalled

    def wait_and_clear(self):
        while not self.signalled:
            self._explorer.wait_until(lambda: self.signalled)
        self.signalled = False

    def recv(self):
        signalled, self.signalled = self.signalled, False
        return signalled

    def fileno(self):
        return 0


class SteppedLock:
    """A lock whose contenders wait in the scheduler."""

    __slots__ = ("_explorer", "_held")

    def __init__(self, explorer):
        self._explorer = explorer
        self._held = False

    def __enter__(self):
        while self._held:
            self._explorer.wait_until(lambda: not self._held)
        self._held = True

    def __exit__(self, *exc):
        self._held = False


class World:
    """The queue layers from source, under an explorer; `changes` makes mutants, by file."""

    def __init__(self, changes=None, closing=False):
        changes = changes or {}
        more = "" if closing else UNLESS_CLOSED
        private = {str(path): f"{names} {more}".split() for path, names in PRIVATE.items()}
        self.explorer = InterleavingExplorer(private, SHARED)
        yqueue = load(YQUEUE, changes.get(YQUEUE, str))
        self._ypipe = load(YPIPE, changes.get(YPIPE, str), YQueue=yqueue.YQueue)
        change = changes.get(MAILBOX, str)
        # The clock stands still, and nothing forks.
        self._mailbox = load(MAILBOX, change, Signaler=self.signal, real_seconds=float)

    def signal(self, exclusive=False):
        return Signal(self.explorer, exclusive)

    def pipe(self, chunk_size=1):
        return self._ypipe.YPipe(chunk_size, lock=SteppedLock(self.explorer))

    def mailbox(self):
        return self._mailbox.Mailbox()

    def explore(self, scenario, *arguments):
        return self.explorer.explore(lambda explorer: scenario(self, *arguments))


# Pipes


def flushing(world, messages, chunk_size):
    """Write and flush one by one; the reader sleeps when told to."""
    pipe, signal, got = world.pipe(chunk_size), world.signal(exclusive=True), []

    def write():
        for message in range(messages):
            pipe.write(message)
            if not pipe.flush():
                signal.send()

    def read():
        while len(got) < messages:
            if pipe.check_read():
                got.append(pipe.read())
            else:
                signal.wait()
                signal.recv()

    def at_end():
        assert got == list(range(messages))
        pipe._check()
        assert not signal.signalled, "a signal was sent that was not owed"

    return Scenario({"writer": write, "reader": read}, (pipe, signal, got), at_end)


def multipart(world):
    """Two messages of two parts, a third one taken back; parts come in pairs or not at all."""
    pipe, signal, got = world.pipe(2), world.signal(exclusive=True), []

    def write():
        for message in (1, 2):
            pipe.write(message, True)
            pipe.write(-message)
            pipe.write("regretted", True)
            if not pipe.flush():
                signal.send()
            regretted = pipe.unwrite()
            assert regretted == "regretted"

    def read():
        while len(got) < 4:
            if not pipe.check_read():
                assert len(got) % 2 == 0, "half a message was flushed"
                signal.wait()
                signal.recv()
            else:
                probed = pipe.probe_or_none()
                got.append(pipe.read())
                assert got[-1] == probed

    def at_end():
        assert got == [1, -1, 2, -2]
        pipe._check()

    return Scenario({"writer": write, "reader": read}, (pipe, signal, got), at_end)


@pytest.mark.parametrize(("messages", "chunk_size"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 8)])
def test_pipe(messages, chunk_size):
    """write, flush, check_read, read, wait and signal in any order: all is read, none sleeps on."""
    World().explore(flushing, messages, chunk_size)


def test_pipe_of_multipart_messages():
    """A message is read whole or not at all, and what was taken back is not read."""
    World().explore(multipart)


PIPE_MUTANTS = {
    "flush forgets that the reader slept": (YPIPE, swapped("awake = self._c", "self._c = limit")),
    "flush without the lock": (YPIPE, replaced("with lock:", "if True:")),
    "check_read does not say that it sleeps": (YPIPE, replaced("self._c = ASLEEP\n", "pass\n")),
    "check_read sleeps before it looks": (
        YPIPE,
        replaced("flushed = self._c\n", "flushed, self._c = self._c, ASLEEP\n"),
    ),
    "check_read prefetches what was written": (
        YPIPE,
        replaced("self._r = flushed", "self._r = self._queue._back"),
    ),
    "a write is flushed unfinished": (YPIPE, replaced("if not incomplete:", "if True:")),
    "the new chunk is linked too late": (YQUEUE, replaced("chunk.next = new\n", "pass\n")),
    "the spare chunk is given away in use": (
        YQUEUE,
        replaced("self._spare.append(chunk)", "self._spare.append(new)"),
    ),
}


@pytest.mark.parametrize("mutant", PIPE_MUTANTS)
def test_pipe_mutants_fail(mutant):
    """Each slip in the pipe loses a value or a wake-up, or wakes a reader twice, in some order."""
    changes = dict([PIPE_MUTANTS[mutant]])
    with pytest.raises(BadInterleaving):  # noqa: PT012 - one of them finds it
        World(changes).explore(flushing, 3, 1)
        World(changes).explore(multipart)


# Mailboxes


def sending(world, senders, commands):
    """Senders of so many commands each, and a reader that waits for all of them."""
    mailbox, got = world.mailbox(), []

    def sender(number):
        def send():
            for command in range(commands):
                mailbox.send(number * 10 + command)

        return send

    def receive():
        for _ in range(senders * commands):
            got.append(mailbox.recv())  # noqa: PERF401 - a line of a program is a step

    def at_end():
        assert not mailbox.depth
        for number in range(senders):
            mine = [command for command in got if command // 10 == number]
            assert mine == [number * 10 + command for command in range(commands)]

    programs = {f"sender {number}": sender(number) for number in range(senders)}
    return Scenario({**programs, "reader": receive}, (mailbox, got), at_end)


def polling(world, senders, commands):
    """Likewise, but the reader sleeps on the descriptor, and drains until there is nothing."""
    scenario = sending(world, senders, commands)
    mailbox, got = scenario.shared

    def receive():
        while len(got) < senders * commands:
            mailbox._signaler.wait()
            while (command := mailbox.recv(0)) is not None:
                got.append(command)

    scenario.programs["reader"] = receive
    return scenario


def taking_one(world, senders, commands):
    """Likewise, but the reader takes one command each time the descriptor is readable."""
    scenario = sending(world, senders, commands)
    mailbox, got = scenario.shared

    def receive():
        while len(got) < senders * commands:
            mailbox._signaler.wait()
            command = mailbox.recv(0)
            if command is not None:
                got.append(command)

    scenario.programs["reader"] = receive
    return scenario


def mixing(world, commands):
    """Likewise, but the first is waited for by a recv, and only the others on the descriptor."""
    scenario = sending(world, 1, commands)
    mailbox, got = scenario.shared

    def receive():
        got.append(mailbox.recv())
        while len(got) < commands:
            mailbox._signaler.wait()
            command = mailbox.recv(0)
            if command is not None:
                got.append(command)

    scenario.programs["reader"] = receive
    return scenario


def interrupted(world):
    """A send that may be cut short before any of its lines, and another send after it."""
    mailbox, got, explorer = world.mailbox(), [], world.explorer

    def send():
        try:
            mailbox.send("first")
        except KeyboardInterrupt:
            pass
        explorer.resume()
        mailbox.send("second")

    def receive():
        while not got or got[-1] != "second":
            mailbox._signaler.wait()
            while (command := mailbox.recv(0)) is not None:
                got.append(command)

    def at_end():
        assert got in (["first", "second"], ["second"])

    return Scenario(
        {"sender": send, "reader": receive}, (mailbox, got), at_end, interruptible=("sender",)
    )


def waking(world, messages):
    """A pipe's wake-ups sent through its reader's mailbox, as sockets do."""
    pipe, mailbox, got = world.pipe(2), world.mailbox(), []

    def write():
        for message in range(messages):
            pipe.write(message)
            if not pipe.flush():
                mailbox.send("look")

    def read():
        while len(got) < messages:
            if pipe.check_read():
                got.append(pipe.read())
            else:
                mailbox.recv()

    def at_end():
        assert got == list(range(messages))
        assert not mailbox.depth, "a wake-up that was not owed"

    return Scenario({"writer": write, "reader": read}, (pipe, mailbox, got), at_end)


def closing(world):
    """A reader that waits for ever, and a thread that closes its mailbox."""
    mailbox, got = world.mailbox(), []

    def close():
        mailbox.close()

    def receive():
        try:
            mailbox.recv()
        except mq.MailboxClosed:
            got.append("closed")

    def at_end():
        assert got == ["closed"]

    return Scenario({"closer": close, "reader": receive}, (mailbox, got), at_end)


SCENARIOS = {
    "two commands, one a poll": (taking_one, 1, 2),
    "three commands, one a poll": (taking_one, 1, 3),
    "two commands, polled": (polling, 1, 2),
    "an interrupted send": (interrupted,),
    "two commands": (sending, 1, 2),
    "three commands, the first waited for": (mixing, 3),
    "two senders, one a poll": (taking_one, 2, 1),
    "two senders, polled": (polling, 2, 1),
    "a pipe's wake-ups": (waking, 2),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_mailbox(name):
    """Whatever the order, every command arrives and no reader sleeps on."""
    World().explore(*SCENARIOS[name])


def test_close():
    """In every order, a close wakes a waiting reader."""
    World(closing=True).explore(closing)


MAILBOX_MUTANTS = {
    "send reads the sleep before it appends": (
        replaced(
            "        self._queue.append(command)\n        sleep = self._sleeps\n",
            "        sleep = self._sleeps\n        self._queue.append(command)\n",
        )
    ),
    "send signals before it appends": (
        replaced("        self._queue.append(command)\n        sleep", "        sleep"),
        replaced(
            "            self._signalled = sleep\n",
            "            self._signalled = sleep\n        self._queue.append(command)\n",
        ),
    ),
    "send says so before it signals": (
        replaced(
            "            signaler.send()\n            self._signalled = sleep\n",
            "            self._signalled = sleep\n            signaler.send()\n",
        )
    ),
    "recv looks before it numbers the sleep": (
        swapped("self._sleeps += 1", "command = self._recheck(signaler)")
    ),
    "recv numbers the sleep before it consumes the signal": (
        swapped("signaler.recv()", "self._sleeps += 1")
    ),
    "a wait for ever is not numbered": (replaced("self._sleeps += 1", "pass")),
    "recv does not recheck": (replaced("command = self._recheck(signaler)", "command = None")),
    "what is left after the look is not signalled": (replaced("if len(queue) > 1:", "if False:")),
}


@pytest.mark.parametrize("mutant", MAILBOX_MUTANTS)
def test_mailbox_mutants_fail(mutant):
    """Each slip in the mailbox loses a wake-up in some order of some scenario."""
    changes = MAILBOX_MUTANTS[mutant]
    changes = changes if isinstance(changes, tuple) else (changes,)

    def change(text):
        for one in changes:
            text = one(text)
        return text

    with pytest.raises(BadInterleaving):  # noqa: PT012 - one of them finds it
        for scenario in SCENARIOS.values():
            World({MAILBOX: change}).explore(*scenario)
