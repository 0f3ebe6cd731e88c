"""Waiting for what comes without being told."""

import threading
import time

from tests.testing.purgatory_harness import HANG


def eventually(condition):
    """Ask `condition` until it is true; fails if that takes so long that something hangs."""
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        threading.Event().wait(0.001)  # another thread may need the interpreter
