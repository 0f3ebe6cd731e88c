"""The fixtures of the server's tests."""

from tests.testing.step_server import step_server

__all__ = ["step_server"]
