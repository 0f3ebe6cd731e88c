"""Fixtures for the tests of the commands: servers in this process."""

from tests.testing.servers import connect, no_thread_is_left, peer, serve, server

__all__ = ["connect", "no_thread_is_left", "peer", "serve", "server"]
