"""Helpers for tests with sockets and threads."""

import threading
from collections.abc import Callable
from typing import Any

import mq


def fill(socket, limit=10_000, data=b"x"):
    """Send until there is no room; how many messages that were."""
    for sent in range(limit):
        try:
            socket.send(data, mq.DONTWAIT)
        except mq.Again:
            return sent
    return limit


def drain(socket):
    """Receive all messages that are here."""
    received = []
    try:
        while True:
            received.append(socket.recv_multipart(mq.DONTWAIT))
    except mq.Again:
        return received


class ThreadGroup:
    """Threads whose exceptions are raised by `join`."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, call: Callable[..., Any], *args: Any) -> threading.Thread:
        """Run `call` in a thread."""

        def run() -> None:
            try:
                call(*args)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self, timeout: float = 60) -> None:
        """Wait for all; a thread that is still there has hung."""
        for thread in self.threads:
            thread.join(timeout)
            assert not thread.is_alive(), "a thread hangs"
        self.threads.clear()
        if self.errors:
            raise self.errors[0]


def run_in_threads(*calls: Callable[[], Any]) -> None:
    """Run calls at once, each in a thread; raise what the first of them raised."""
    threads = ThreadGroup()
    for call in calls:
        threads.start(call)
    threads.join()
