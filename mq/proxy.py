"""proxy: forwards messages between two sockets until their context ends.

Runs in the calling thread, which owns all sockets given for as long.
"""

from typing import Any

from mq.constants import DeviceType, Flag, PollEvent
from mq.poller import Poller

_IN = int(PollEvent.POLLIN)
_OUT = int(PollEvent.POLLOUT)
_SNDMORE = int(Flag.SNDMORE)


def proxy(frontend: Any, backend: Any, capture: Any = None) -> None:
    """Forward messages both ways, and a copy of each to `capture`.

    With one socket twice, what is received from it is sent to it.  Returns only by raising, as a
    rule `ContextTerminated`.
    """
    while True:
        if frontend is backend:
            _wait_for_events(frontend, _IN)
            _forward(frontend, backend, capture)
        else:
            _forward_ready(frontend, backend, capture)


def _forward_ready(frontend: Any, backend: Any, capture: Any) -> None:
    # First wait for a message, then for the other side's room: polling for room alone
    # would spin.
    poller = Poller()
    poller.register(frontend, _IN)
    poller.register(backend, _IN)
    for source, _ in poller.poll():
        target = backend if source is frontend else frontend
        _wait_for_events(target, _OUT)
        _forward(source, target, capture)


def _wait_for_events(socket: Any, events: int) -> None:
    poller = Poller()
    poller.register(socket, events)
    poller.poll()


def _forward(source: Any, target: Any, capture: Any) -> None:
    more = True
    while more:
        frame = source.recv(copy=False)
        more = frame.more
        flags = _SNDMORE if more else 0
        if capture is not None:
            capture.send(frame, flags)
        target.send(frame, flags)


def device(device_type: DeviceType, frontend: Any, backend: Any) -> None:  # noqa: ARG001 - pyzmq's
    """Do the same as `proxy`, by its old name."""
    proxy(frontend, backend)
