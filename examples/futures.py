"""Match replies to requests by their number: a call with a deadline, over any channel."""

import itertools
import queue
import threading
from typing import Any

from purgatory import OperationExpired, Purgatory

Channel = queue.SimpleQueue[tuple[int, str] | None]


class Caller:
    """Sends requests and waits for their replies. Any thread may call."""

    def __init__(self, purgatory: Purgatory, requests: Channel) -> None:
        self._purgatory, self._requests = purgatory, requests
        self._numbers = itertools.count(1)

    def call(self, text: str, timeout: float) -> Any:
        """Return the reply. Raises OperationExpired, a TimeoutError."""
        number = next(self._numbers)
        reply = self._purgatory.defer(("reply", number), timeout=timeout)  # before it is sent
        self._requests.put((number, text))
        return reply.result()


def serve(requests: Channel, replies: Channel) -> None:
    """Answer every request in capital letters, save the one for silence."""
    while request := requests.get():
        number, text = request
        if text != "silence":
            replies.put((number, text.upper()))


def receive(replies: Channel, purgatory: Purgatory) -> None:
    """Complete the operation that waits for each reply."""
    while reply := replies.get():
        purgatory.complete(("reply", reply[0]), reply[1])


def main() -> None:
    """Make a call with an answer, and a call without."""
    requests, replies = Channel(), Channel()
    with Purgatory("calls") as purgatory:
        threading.Thread(target=serve, args=(requests, replies)).start()
        threading.Thread(target=receive, args=(replies, purgatory)).start()
        caller = Caller(purgatory, requests)
        print(caller.call("hello", timeout=30))
        try:
            caller.call("silence", timeout=0.1)
        except OperationExpired as error:
            print(error)
        requests.put(None)
        replies.put(None)


if __name__ == "__main__":
    main()
