"""Negative controls: without one of its defences the service does the harm that it prevents.

Each control plays the same scene twice, with the defence and without, and returns the harm of both.
So the defence is needed, and this drill would see that it is missing.
"""

import signal
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, Self

import zmq
from msgspec import Raw

from purgatory.service import Client
from purgatory.service.encoding import decode_answer, encode, pack
from purgatory.service.protocol import (
    VERSION,
    Complete,
    Completion,
    Hello,
    Query,
    States,
    Welcome,
)
from tests.drill.clock import now
from tests.drill.drill import Drill
from tests.drill.faults import pause
from tests.postgres.proxy import Link
from tests.testing.frozen_process import freeze

#: Questions to a server that was fenced off.
QUESTIONS = 50
#: Seconds that its answers may take.
ANSWERS_S = 1.5
LONG_S = 600.0
#: Seconds by which a group is late: longer than a takeover takes.
LATE_S = 6.0


class Harm(NamedTuple):
    """What a scene has done: with the defence, and without."""

    with_defence: int
    without: int


class Control(NamedTuple):
    """A scene, the handicaps of both servers in it, and what the harm is."""

    play: Callable[..., int]
    harm: str
    handicap: tuple[str, ...] = ()
    standby: tuple[str | None, str | None] = (None, None)

    def run(self, seed: int, say: Callable[[str], None]) -> Harm:
        """Play the scene with the defence and without."""
        found = []
        for handicap, standby in zip(((), self.handicap), self.standby, strict=True):
            with Drill(seed, standby=standby, handicap=handicap) as drill:
                found.append(self.play(drill))
        harm = Harm(*found)
        say(f"{self.harm}: {harm.with_defence}; without the defence: {harm.without}")
        return harm


def stale_answers(drill: Drill) -> int:
    """Ask a quiet server that was stopped and cut off, when another one has taken over.

    It has nothing to commit, so no refused commit tells it to be silent.
    """
    stopped = drill.active()
    with closing(Client(stopped.address, name="client")) as client:
        operation = client.submit("key", timeout=LONG_S, op_id="operation").op_id
        with RawClient(stopped.address) as observer:
            observer.ask(Query(2, [operation]))
            assert observer.count_pending(10.0, 1) == 1
            stopped.freeze()
            stopped.link(Link.SWALLOW)
            drill.wait_until(lambda: drill.active() is not stopped)
            with closing(Client(drill.active().address, name="other")) as other:
                assert other.complete("key") == 1
            for seq in range(3, QUESTIONS + 3):
                observer.ask(Query(seq, [operation]))
            stopped.signal(signal.SIGCONT)
            stale = observer.count_pending(ANSWERS_S, QUESTIONS)
        stopped.link(Link.FORWARD)
    return stale


class RawClient:
    """A connection that sends each message once, to one server."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address)
        self.ask(Hello(1, VERSION, "raw", "session", False))
        assert self._socket.poll(10_000), "no answer to the hello"
        assert isinstance(decode_answer(self._socket.recv()), Welcome)

    def ask(self, message: object) -> None:
        """Send a message."""
        self._socket.send(encode(message))

    def count_pending(self, seconds: float, most: int) -> int:
        """Count answers that have the operation as pending: at most so many, for so long."""
        count, deadline = 0, now() + seconds
        while count < most and (left := deadline - now()) > 0:
            if self._socket.poll(int(left * 1000) + 1):
                message = decode_answer(self._socket.recv())
                count += isinstance(message, States) and message.states[0].state == "pending"
        return count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(0)


def overwritten_events(drill: Drill) -> int:
    """Have a group come late that gives no new number: it holds an event.

    The new active has held another one for that key by then; the next to load finds which.
    """
    late = drill.active()
    with closing(Client(drill.address, name="client")) as client:
        client.complete("key", "older", hold=LONG_S)
        with RawClient(late.address) as early:
            late.link(Link.FORWARD, delay_s=LATE_S)
            early.ask(Complete(2, [Completion("key", Raw(pack("old")), None, int(LONG_S * 1000))]))
            drill.wait_until(lambda: drill.active() is not late)
        client.complete("key", "new", hold=LONG_S)
        pause(LATE_S)
        drill.active().kill()
        late.kill()
        late.link(Link.FORWARD)
        late.start()
        return int(client.defer("key", timeout=LONG_S).result(60) != "new")


def lost_operations(drill: Drill) -> int:
    """Freeze what sends to the database's standby, crash the primary, promote the standby."""
    drill.load.start()
    try:
        drill.wait_until_served(now())
        pause(1.0)
        for pid in drill.cluster.walsenders():
            freeze(pid)
        pause(0.3)
        drill.cluster.fail_over()
        drill.cluster.primary.set("synchronous_standby_names", "")
        drill.wait_until_served(now())
        drill.load.stop()
    finally:
        drill.load.close()
    return sum(violation.kind == "lost" for violation in drill.books.check())


CONTROLS = {
    "guard": Control(stale_answers, "answers of an older epoch", ("guard",)),
    "fence": Control(overwritten_events, "late groups that counted", ("fence", "sessions")),
    "synchronous": Control(
        lost_operations,
        "operations lost that were acknowledged",
        standby=("synchronous", "asynchronous"),
    ),
}
