"""A purgatory on an event loop: `AsyncPurgatory`, for asyncio, uvloop and frameworks on top.

The front door of the room. `import purgatory` does not import it, nor asyncio.

Inside: `async_purgatory` has the class for users, `loop_future` what its `defer` returns,
`loop_operation` the operation behind it, `loop_delivery` the way of its end to the loop, and
`loop_driver` advances the timer.
"""

from purgatory.aio.async_purgatory import AsyncPurgatory
from purgatory.aio.loop_future import LoopFuture
from purgatory.errors import WrongEventLoop

__all__ = ["AsyncPurgatory", "LoopFuture", "WrongEventLoop"]
