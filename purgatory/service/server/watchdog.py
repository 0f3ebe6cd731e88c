"""Watchdog: a thread that looks again and again whether something is wrong with a server.

Sees events of which no loop is told, even while other threads wait for a disk. A single thread
starts and closes it.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from _purgatory_cpython.threads import InterruptibleThread

log: logging.Logger = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK_S: Final = 0.1
#: The same while a look asks for the next one soon.
SOON_S: Final = 0.01


class Watchdog:
    """Calls each of `looks` every LOOK_S seconds, in a thread, from `start` to `close`.

    All are called again after SOON_S if one returns True.
    """

    def __init__(self, looks: Sequence[Callable[[], bool | None]]) -> None:
        self._looks = list(looks)
        self._closing = threading.Event()
        self._thread = InterruptibleThread(target=self._run, name="service-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        seconds = LOOK_S
        while not self._closing.wait(seconds):
            seconds = LOOK_S
            for look in tuple(self._looks):
                try:
                    if look():
                        seconds = SOON_S
                except Exception:
                    log.exception("the watchdog stops checking %r", look)
                    self._looks.remove(look)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closing.set()
        self._thread.join()
