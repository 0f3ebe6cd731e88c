"""Waiting for what comes without being told."""

import threading
import time

from tests.testing.purgatory_harness import HANG

LONGEST_PAUSE_S = 0.05


def eventually(condition, explain=lambda: "the condition never became true", hang=HANG):
    """Ask `condition` until it is true; fails with `explain()` if that takes `hang` seconds.

    Pauses a tenth of the time so far: a look may cost another process more than this one.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < hang, explain()
        threading.Event().wait(min(0.001 + waited / 10, LONGEST_PAUSE_S))
