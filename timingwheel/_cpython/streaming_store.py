"""clear_slot_streaming: clear a slot of a large list without waiting for main memory.

Else a cancel in random order would wait for the slot, only to write None. The C part writes past
the caches; what they still hold is written the ordinary way: see `bucket.STREAMING_STORE_DISTANCE`.

Worth it: see docs/mechanisms.md.

Compiled only, where sections are atomic. Any thread that may change the list.
"""

from typing import TYPE_CHECKING, Any, Final

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS

HAS_STREAMING_STORE: Final[bool] = ATOMIC_SECTIONS

if HAS_STREAMING_STORE and not TYPE_CHECKING:
    from timingwheel._cpython._native import clear_slot_streaming
else:

    def clear_slot_streaming(slots: list[Any], index: int, content: object) -> None:
        """Write None at `index`, where `content` must be. Runs no Python code."""
        raise NotImplementedError
