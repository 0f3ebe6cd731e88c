"""KeyboardInterrupts of a client's caller by a timer's signals, at random times.

`CLIENT_INTERRUPTS` is how many.
"""

import itertools
import random
from os import environ

import pytest

from tests.testing.mq_interrupts import TimerInterrupter
from tests.testing.purgatory_harness import HANG

INTERRUPTS = int(environ.get("CLIENT_INTERRUPTS", "200"))


@pytest.mark.timeout(120 + INTERRUPTS // 10)
def test_interrupts_at_random_times(server, connect):
    """The interrupted call is done or not; all others are done, and no call waits in vain."""
    client, other = connect(server), connect(server)
    choice = random.Random(0)
    numbers, interrupts = itertools.count(), 0
    with TimerInterrupter(0) as interrupter:
        while interrupts < INTERRUPTS:
            key = f"k{next(numbers)}"
            before = client.defer(key, timeout=HANG)
            client.flush()

            def call(key=key, before=before):
                choice.choice(calls)(client, key, before)

            interrupts += interrupter.run(call)
            client.flush()
            assert client.complete(f"nothing {key}") == 0, interrupter.where
            other.complete(key, 2)
            assert before.result(HANG) in (1, 2), interrupter.where
            assert other.complete(f"new {key}") <= 1, interrupter.where
    assert server.stats().pending == 0


def _complete(client, key, _):
    client.complete(key, 1)


def _defer(client, key, _):
    client.defer(f"new {key}", timeout=HANG)
    client.flush()


def _extend(client, _, future):
    client.extend(future, HANG)


def _query(client, _, future):
    assert client.query(future).state == "pending"


def _wait(client, key, future):
    later = client.complete_later(key, 1)
    assert future.result(HANG) == 1
    assert later.result(HANG) == 1


calls = [_complete, _defer, _extend, _query, _wait]
