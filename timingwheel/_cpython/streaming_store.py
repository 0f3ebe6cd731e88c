"""vacate: emptying a place of a large array without waiting for main memory.

With a million timers, half of the time of a cancel in random order would be a wait for the place of
the task in its bucket's array, only to write None there. The compiled part writes past the caches.
What the caches still hold is better written as ever: see `bucket.STREAMING_STORE_DISTANCE`.

Any thread that may change the list. Without the compiled part nothing here is called.
"""

from typing import TYPE_CHECKING, Final

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS

if TYPE_CHECKING:
    from timingwheel.task import TimerTask

    def clear_slot_streaming(places: "list[TimerTask | None]", place: int, task: TimerTask) -> None:
        """Write None at ``place``, where ``task`` must be. Runs no Python code."""

    HAS_STREAMING_STORE: Final[bool] = ATOMIC_SECTIONS
else:
    try:
        from timingwheel._cpython._streaming_store import clear_slot_streaming
    except ImportError:
        HAS_STREAMING_STORE: Final[bool] = False
        clear_slot_streaming = None
    else:
        HAS_STREAMING_STORE: Final[bool] = ATOMIC_SECTIONS
