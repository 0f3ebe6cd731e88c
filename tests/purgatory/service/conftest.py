"""The fixtures of the service's tests."""

import pytest

from tests.testing.servers import connect, no_thread_is_left, peer, serve, server

__all__ = ["connect", "no_thread_is_left", "peer", "serve", "server"]


@pytest.fixture(autouse=True)
def _no_thread_is_left(no_thread_is_left):
    """Every test of the service ends with the threads that it began with."""
