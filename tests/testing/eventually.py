"""Waiting for what comes without being told."""

import threading
import time

from tests.testing.purgatory_harness import HANG


def eventually(condition, explain=lambda: "the condition never became true", hang=HANG):
    """Ask `condition` until it is true; fails with `explain()` if that takes `hang` seconds."""
    deadline = time.monotonic() + hang
    while not condition():
        assert time.monotonic() < deadline, explain()
        threading.Event().wait(0.001)  # another thread may need the interpreter
