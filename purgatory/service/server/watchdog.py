"""Watchdog: a thread that looks for trouble with a server.

Works while other threads wait for a disk. A single thread starts and closes it.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from _purgatory_cpython.threads import InterruptibleThread

log: logging.Logger = logging.getLogger(__name__)

#: Seconds between looks.
LOOK_S: Final = 0.1
#: After a look that returned True.
SOON_S: Final = 0.01
# All looks are called in one of so many rounds.
_ALL_TOGETHER: Final = round(LOOK_S / SOON_S)


class Watchdog:
    """Calls each of `looks` every LOOK_S seconds, from `start` to `close`.

    A look that returns True is repeated after SOON_S; one that raises is dropped.
    """

    def __init__(self, looks: Sequence[Callable[[], bool | None]]) -> None:
        self._looks = list(looks)
        self._closing = threading.Event()
        self._thread = InterruptibleThread(target=self._run, name="service-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        rounds, urgent = 0, list[Callable[[], bool | None]]()
        while not self._closing.wait(SOON_S if urgent else LOOK_S):
            rounds = (rounds + 1) % _ALL_TOGETHER if urgent else 0
            looks = urgent if rounds else tuple(self._looks)
            urgent = [look for look in looks if self._call(look)]

    def _call(self, look: Callable[[], bool | None]) -> bool:
        try:
            return bool(look())
        except Exception:
            log.exception("the watchdog stops checking %r", look)
            self._looks.remove(look)
            return False

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closing.set()
        self._thread.join()
