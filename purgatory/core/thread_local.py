"""ThreadLocal: something of its own for each thread.

Interpreted, because mypyc does not compile what inherits from ``threading.local``.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadLocal(threading.local, Generic[T]):
    """``here.value`` is what ``make()`` returned when this thread first asked."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.value = make()
