"""A purgatory on an event loop: `AsyncPurgatory`, for asyncio, uvloop and frameworks on top.

`import purgatory` does not import it, nor asyncio.
"""

from purgatory.aio.async_purgatory import AsyncPurgatory
from purgatory.aio.loop_future import LoopFuture
from purgatory.errors import WrongEventLoop

__all__ = ["AsyncPurgatory", "LoopFuture", "WrongEventLoop"]
