"""Contexts and sockets that are cleaned up, and helpers to run things beside each other."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mq as zmq
import mq.asyncio as amq
from tests.testing.sockets import ThreadGroup


@pytest.fixture
def ctx() -> Iterator[zmq.Context]:
    """A context, destroyed with all its sockets; that it can be is part of every test."""
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def socket(ctx: zmq.Context) -> Iterator[Callable[..., zmq.Socket]]:
    """Makes sockets of `ctx`; options are given by name."""

    sockets = []

    def make(socket_type: int, **options: Any) -> zmq.Socket:
        made = ctx.socket(socket_type)
        sockets.append(made)
        made.rcvtimeo = 10_000  # a hang becomes an Again
        for name, value in options.items():
            setattr(made, name, value)
        return made

    yield make
    for made in sockets:
        made.close(linger=0)


@pytest.fixture
def threads() -> Iterator[ThreadGroup]:
    """Threads, joined at the end."""
    group = ThreadGroup()
    yield group
    group.join()


@pytest.fixture
def pair(socket: Callable[..., zmq.Socket]) -> Callable[..., tuple[zmq.Socket, zmq.Socket]]:
    """Makes two sockets and connects them: `pair(zmq.PUSH, zmq.PULL)`; the first one binds."""
    numbers = itertools.count()

    def make(bound, connecting, bound_options=None, **options):
        address = f"inproc://pair-{next(numbers)}"
        first = socket(bound, **(bound_options or {}))
        first.bind(address)
        second = socket(connecting, **options)
        second.connect(address)
        return first, second

    return make


@pytest.fixture
def asyncio_ctx() -> Iterator[amq.Context]:
    """A context of asyncio sockets."""
    context = amq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def run_in_loop(asyncio_ctx: amq.Context) -> Callable[..., None]:
    """Runs a coroutine function with a connected pair of sockets, within 30 seconds."""

    def runner(test, sender=zmq.PUSH, receiver=zmq.PULL):
        async def body():
            with asyncio_ctx.socket(sender) as a, asyncio_ctx.socket(receiver) as b:
                b.bind("inproc://loop")
                a.connect("inproc://loop")
                await asyncio.wait_for(test(a, b), 30)

        asyncio.run(body())

    return runner
