"""ThreadLocal: one value for each thread.

Not compiled: mypyc does not support subclasses of `threading.local`.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadLocal(threading.local, Generic[T]):
    """Holds in `value` what `make()` returned when the current thread first asked for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.value = make()
