"""Contexts and sockets that are ended whatever a test does."""

import pytest
from hypothesis import settings

import mq

# A busy machine is no error.
settings.register_profile("mq", deadline=None)
settings.load_profile("mq")

PATIENCE_MS = 30_000  # only a hang takes so long


@pytest.fixture
def context():
    """A context, destroyed at the end."""
    context = mq.Context()
    context.set(mq.MAX_SOCKETS, 4000)
    context.rcvtimeo = context.sndtimeo = PATIENCE_MS
    yield context
    context.destroy()


@pytest.fixture
def socket(context):
    """Makes sockets with options: `socket(mq.PUSH, sndhwm=1)`."""

    kept = []  # a socket that nobody holds is closed, with a warning

    def make(kind, **options):
        made = context.socket(kind)
        kept.append(made)
        for name, value in options.items():
            setattr(made, name, value)
        return made

    yield make
    for made in kept:
        made.close()


@pytest.fixture
def pair(socket):
    """Makes two sockets and connects them: `pair(mq.PUSH, mq.PULL)`; the first one binds."""
    count = iter(range(1000))

    def make(bound, connecting, bound_options=None, **options):
        address = f"inproc://pair-{next(count)}"
        first = socket(bound, **(bound_options or {}))
        first.bind(address)
        second = socket(connecting, **options)
        second.connect(address)
        return first, second

    return make
