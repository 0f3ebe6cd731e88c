"""Sockets, pipes and mailboxes of mq beside pyzmq and the standard library's queues.

    python benchmarks/bench_mq.py [--messages 200000] [--trips 20000] [--repeats 5]

*Messages*: from one thread (or eight) to another, one message a get; the sockets have their default
high-water marks. *Round trips*: a message there and back between two threads, each of which waits
for the other. Wall time, because waking a thread is most of it. A ratio is the median over the
rounds of one run, each round a fresh process for every contestant in turn: a figure of a
contestant alone depends on the other load of the machine.
"""

import argparse
import json
import queue
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from harness import machine, measure, table

import mq

Loop = Callable[[int], None]  # sends, or receives, so many messages
Ends = tuple[Callable[[bytes], object], Callable[[], object]]  # put and get

MESSAGE = b"x"
EIGHT = 8
PEERS = ("pyzmq", "deque+Condition")  # what the tables divide by


def connected(library: Any, bound: int, connecting: int) -> tuple[Any, Any]:
    """Two sockets of mq or of pyzmq; their context ends with the process."""
    context = library.Context.instance()
    one, two = context.socket(bound), context.socket(connecting)
    one.bind("inproc://bench")
    two.connect("inproc://bench")
    return one, two


def repeated(put: Callable[[bytes], object], get: Callable[[], object]) -> tuple[Loop, Loop]:
    """Loops over two functions."""

    def produce(count: int) -> None:
        for _ in range(count):
            put(MESSAGE)

    def consume(count: int) -> None:
        for _ in range(count):
            get()

    return produce, consume


def push_pull(library: Any) -> tuple[Loop, Loop]:
    """PUSH to PULL."""
    pull, push = connected(library, library.PULL, library.PUSH)
    return repeated(push.send, pull.recv)


def standard_queue(make: Callable[[], Any]) -> tuple[Loop, Loop]:
    """One of `queue`'s."""
    items = make()
    return repeated(items.put, items.get)


def mailbox() -> tuple[Loop, Loop]:
    """A Mailbox."""
    box: mq.Mailbox[bytes] = mq.Mailbox()
    return repeated(box.send, box.recv)


def deque_condition() -> tuple[Loop, Loop]:
    """What one writes by hand: a condition taken for each message."""
    items: deque[bytes] = deque()
    condition = threading.Condition()

    def produce(count: int) -> None:
        for _ in range(count):
            with condition:
                items.append(MESSAGE)
                condition.notify()

    def consume(count: int) -> None:
        for _ in range(count):
            with condition:
                while not items:
                    condition.wait()
                items.popleft()

    return produce, consume


def ypipe(batch: int) -> tuple[Loop, Loop]:
    """A YPipe and the Signaler its reader sleeps on, flushed after every so many messages."""
    pipe: mq.YPipe[bytes] = mq.YPipe()
    signaler = mq.Signaler()

    def produce(count: int) -> None:
        for number in range(1, count + 1):
            pipe.write(MESSAGE)
            if (number % batch == 0 or number == count) and not pipe.flush():
                signaler.send()

    def consume(count: int) -> None:
        received = 0
        while received < count:
            try:
                pipe.read()
                received += 1
            except mq.Empty:
                signaler.wait()
                signaler.recv()

    return produce, consume


def queue_ends(make: Callable[[], Any]) -> tuple[Ends, Ends]:
    """Two queues, one there and one back."""
    there, back = make(), make()
    return (there.put, back.get), (back.put, there.get)


def mailbox_ends() -> tuple[Ends, Ends]:
    """A mailbox for each of two threads."""
    there, back = mq.Mailbox[bytes](), mq.Mailbox[bytes]()
    return (there.send, back.recv), (back.send, there.recv)


def pair_ends(library: Any) -> tuple[Ends, Ends]:
    """Two PAIR sockets."""
    one, two = connected(library, library.PAIR, library.PAIR)
    return (one.send, one.recv), (two.send, two.recv)


class HandmadeQueue:
    """A deque and a Condition."""

    def __init__(self) -> None:
        self.items: deque[bytes] = deque()
        self.condition = threading.Condition()

    def put(self, item: bytes) -> None:
        """Append, and wake the reader."""
        with self.condition:
            self.items.append(item)
            self.condition.notify()

    def get(self) -> bytes:
        """Wait for an item."""
        with self.condition:
            while not self.items:
                self.condition.wait()
            return self.items.popleft()


MESSAGES: dict[str, tuple[int, Callable[[], tuple[Loop, Loop]]]] = {
    "mq PUSH-PULL": (1, lambda: push_pull(mq)),
    "pyzmq": (1, lambda: push_pull(zmq)),
    "SimpleQueue": (1, lambda: standard_queue(queue.SimpleQueue)),
    "Queue": (1, lambda: standard_queue(queue.Queue)),
    "deque+Condition": (1, deque_condition),
    "mq YPipe, flush every 1": (1, lambda: ypipe(1)),
    "mq YPipe, flush every 16": (1, lambda: ypipe(16)),
    "mq Mailbox": (1, mailbox),
    "mq Mailbox, 8 senders": (EIGHT, mailbox),
    "SimpleQueue, 8 senders": (EIGHT, lambda: standard_queue(queue.SimpleQueue)),
    "Queue, 8 senders": (EIGHT, lambda: standard_queue(queue.Queue)),
    "deque+Condition, 8 senders": (EIGHT, deque_condition),
}
ROUND_TRIPS: dict[str, Callable[[], tuple[Ends, Ends]]] = {
    "mq PAIR": lambda: pair_ends(mq),
    "pyzmq": lambda: pair_ends(zmq),
    "SimpleQueue": lambda: queue_ends(queue.SimpleQueue),
    "Queue": lambda: queue_ends(queue.Queue),
    "deque+Condition": lambda: queue_ends(HandmadeQueue),
    "mq Mailbox": mailbox_ends,
}


def one_flow(name: str, count: int) -> dict[str, float]:
    """Send so many messages to this thread; messages a second."""
    senders, make = MESSAGES[name]
    produce, consume = make()
    each = max(1, count // senders)
    threads = [threading.Thread(target=produce, args=(each,)) for _ in range(senders)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    consume(each * senders)
    elapsed = time.perf_counter() - start
    for thread in threads:
        thread.join()
    return {"rate": each * senders / elapsed}


def one_exchange(name: str, count: int) -> dict[str, float]:
    """So many round trips with another thread; round trips a second."""
    (put, get), (put_back, get_there) = ROUND_TRIPS[name]()

    def echo() -> None:
        for _ in range(count):
            get_there()
            put_back(MESSAGE)

    thread = threading.Thread(target=echo)
    thread.start()
    start = time.perf_counter()
    for _ in range(count):
        put(MESSAGE)
        get()
    elapsed = time.perf_counter() - start
    thread.join()
    return {"rate": count / elapsed}


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--trips", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.one:
        kind, name, count = options.one
        run = one_flow if kind == "flow" else one_exchange
        print(json.dumps(run(name, int(count))))
        return
    print(f"## Messages between threads ({machine()}; median of {options.repeats})")
    report("Messages a second", "flow", list(MESSAGES), options.messages, options.repeats)
    report("Round trips a second", "exchange", list(ROUND_TRIPS), options.trips, options.repeats)


def report(title: str, kind: str, names: list[str], count: int, repeats: int) -> None:
    """One table: each contestant's rate, and its ratio to the peers; more is better."""
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            rates[name].append(measure(__file__, [kind, name, count], 1)[0]["rate"])
    rows = [
        [name, f"{statistics.median(mine):,.0f}", *(ratio(mine, rates[peer]) for peer in PEERS)]
        for name, mine in rates.items()
    ]
    print(table(title, ["", "rate", *(f"of {peer}" for peer in PEERS)], rows))


def ratio(mine: list[float], theirs: list[float]) -> str:
    """The median of the ratios of the rounds."""
    return f"{statistics.median(a / b for a, b in zip(mine, theirs, strict=True)):.2f}"


if __name__ == "__main__":
    main()
