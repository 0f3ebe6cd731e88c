"""The in-process sockets and pipes beside pyzmq and the standard library's queues.

    python benchmarks/bench_mq.py [--messages 100000] [--repeats 3]

*Throughput*: messages a second from one thread to another. *Round trips*: a message there and back,
a second. *Pipe*: a YPipe between two threads, flushed after every message and after every 16th.
*Mailbox*: commands a second from 1 and from 8 senders.
"""

import argparse
import queue
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

import mq

Case = Callable[[int], float]


def timed(count: int, produce: Callable[[], None], consume: Callable[[], None]) -> float:
    """Items a second, with the producer in a thread of its own."""
    thread = threading.Thread(target=produce)
    start = time.perf_counter()
    thread.start()
    consume()
    thread.join()
    return count / (time.perf_counter() - start)


def sockets(library: Any, bound: int, connecting: int) -> tuple[Any, Any, Any]:
    context = library.Context()
    one, two = context.socket(bound), context.socket(connecting)
    one.bind("inproc://bench")
    two.connect("inproc://bench")
    return context, one, two


def push_pull(library: Any) -> Case:
    def case(count: int) -> float:
        context, pull, push = sockets(library, library.PULL, library.PUSH)

        def produce() -> None:
            for _ in range(count):
                push.send(b"x")

        def consume() -> None:
            for _ in range(count):
                pull.recv()

        rate = timed(count, produce, consume)
        context.destroy()
        return rate

    return case


def round_trips(library: Any) -> Case:
    def case(count: int) -> float:
        count //= 10
        context, here, there = sockets(library, library.PAIR, library.PAIR)

        def produce() -> None:
            for _ in range(count):
                there.send(there.recv())

        def consume() -> None:
            for _ in range(count):
                here.send(b"x")
                here.recv()

        rate = timed(count, produce, consume)
        context.destroy()
        return rate

    return case


def std_queue(make: Callable[[], Any]) -> Case:
    def case(count: int) -> float:
        q = make()

        def produce() -> None:
            for _ in range(count):
                q.put(b"x")

        def consume() -> None:
            for _ in range(count):
                q.get()

        return timed(count, produce, consume)

    return case


def deque_condition(count: int) -> float:
    items: deque[bytes] = deque()
    condition = threading.Condition()

    def produce() -> None:
        for _ in range(count):
            with condition:
                items.append(b"x")
                condition.notify()

    def consume() -> None:
        for _ in range(count):
            with condition:
                while not items:
                    condition.wait()
                items.popleft()

    return timed(count, produce, consume)


def ypipe(batch: int) -> Case:
    def case(count: int) -> float:
        pipe: mq.YPipe[bytes] = mq.YPipe()
        signaler = mq.Signaler()

        def produce() -> None:
            for number in range(1, count + 1):
                pipe.write(b"x")
                if (number % batch == 0 or number == count) and not pipe.flush():
                    signaler.send()

        def consume() -> None:
            received = 0
            while received < count:
                try:
                    pipe.read()
                    received += 1
                except mq.Empty:
                    signaler.wait()
                    signaler.recv()

        rate = timed(count, produce, consume)
        signaler.close()
        return rate

    return case


def mailbox(senders: int) -> Case:
    def case(count: int) -> float:
        box: mq.Mailbox[int] = mq.Mailbox()

        def send() -> None:
            for number in range(count // senders):
                box.send(number)

        def produce() -> None:
            threads = [threading.Thread(target=send) for _ in range(senders)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        def consume() -> None:
            for _ in range(count // senders * senders):
                box.recv()

        rate = timed(count, produce, consume)
        box.close()
        return rate

    return case


CASES: dict[str, dict[str, Case]] = {
    "throughput": {
        "mq PUSH-PULL": push_pull(mq),
        "pyzmq PUSH-PULL": push_pull(zmq),
        "queue.SimpleQueue": std_queue(queue.SimpleQueue),
        "queue.Queue": std_queue(queue.Queue),
        "deque+Condition": deque_condition,
        "ypipe, flush every 1": ypipe(1),
        "ypipe, flush every 16": ypipe(16),
        "mailbox, 1 sender": mailbox(1),
        "mailbox, 8 senders": mailbox(8),
    },
    "round trips": {"mq PAIR": round_trips(mq), "pyzmq PAIR": round_trips(zmq)},
}
RATIOS = (
    ("mq PUSH-PULL", "pyzmq PUSH-PULL"),
    ("mq PAIR", "pyzmq PAIR"),
    ("ypipe, flush every 16", "deque+Condition"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rates = {}
    for unit, cases in CASES.items():
        for name, case in cases.items():
            rates[name] = statistics.median(case(args.messages) for _ in range(args.repeats))
            print(f"{name:24} {rates[name]:12,.0f} {unit} a second")
    for ours, theirs in RATIOS:
        print(f"{ours} / {theirs}: {rates[ours] / rates[theirs]:.2f}")


if __name__ == "__main__":
    main()
