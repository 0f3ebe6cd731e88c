"""Task: what the scheduler knows of one thread."""

import _thread
import threading
from collections.abc import Callable
from typing import Any


class Task:
    """A thread of a world. It runs while it has the baton; only the scheduler uses this."""

    def __init__(self, number: int, thread: threading.Thread) -> None:
        self.number = number
        self.thread = thread
        self.name: str = thread.name
        #: Locked while another thread runs.
        self.baton: Any = _thread.allocate_lock()
        self.baton.acquire()
        #: Of the real thread; 0 until it has begun.
        self.ident: int = 0
        self.done: bool = False
        #: What it waits for; None: for nothing.
        self.ready: Callable[[], bool] | None = None
        #: When it waits no longer.
        self.deadline_ns: int | None = None
        self.priority: float = 0.0
        #: What is in its thread-local storage, by the number of the storage.
        self.locals: dict[int, dict[str, Any]] = {}

    def is_able(self, now_ns: int) -> bool:
        """Whether it can go on."""
        if self.done:
            return False
        if self.ready is None or self.ready():
            return True
        return self.deadline_ns is not None and now_ns >= self.deadline_ns

    def is_waiting(self) -> bool:
        """Whether it waits for something."""
        return not self.done and self.ready is not None
