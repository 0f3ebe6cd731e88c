"""The fixtures of the tests of repeats."""

from tests.testing.servers import connect, serve, server

__all__ = ["connect", "serve", "server"]
