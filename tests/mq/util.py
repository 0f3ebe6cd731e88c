"""What several tests do with sockets."""

import threading

import mq


def fill(socket, limit=10_000):
    """Send until there is no room; how many messages that were."""
    for sent in range(limit):
        try:
            socket.send(b"x", mq.DONTWAIT)
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


def in_threads(*calls):
    """Run calls at once, each in a thread; raise what any of them raised."""
    errors = []

    def run(call):
        try:
            call()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
