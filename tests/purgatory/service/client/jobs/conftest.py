"""A client whose server is the test."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory.service import Client
from tests.testing.purgatory_harness import HANG


class Asking:
    """A client, whose calls run in another thread, and the test's side of the conversation."""

    def __init__(self, fake, client, pool):
        self.fake = fake
        self.client = client
        self._pool = pool

    def later(self, call):
        """Have a call made; returns its future."""
        return self._pool.submit(call, self.client)

    def begin(self, call):
        """Have a call made; returns its future, and the request that the server gets."""
        return self.later(call), self.fake.receive()

    def ask(self, call, answer):
        """Have a call made and answered; returns the request, without `seq`, and the result."""
        future, request = self.begin(call)
        self.fake.send(answer(request.seq))
        fields = [getattr(request, name) for name in request.__struct_fields__[1:]]
        return (type(request), *fields), future.result(HANG)


@pytest.fixture
def asking(fake):
    """A client of a fake server."""
    with ThreadPoolExecutor() as pool, Client(fake.address, name="me", timeout=HANG) as client:
        yield Asking(fake, client, pool)
