"""Devices: a proxy with its sockets, made, bound and run in one go, if wanted in a thread.

Who may call it: one thread until `start`; then the device's own.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from mq.constants import PUB, DeviceType, SocketOption
from mq.context import Context
from mq.errors import ContextTerminated
from mq.proxy import proxy

if TYPE_CHECKING:
    from mq.socket import Socket


class Device:
    """Passes messages on between a socket of `in_type` and one of `out_type`.

    With `out_type` -1 one socket is both.  What is asked of a socket before `start` is done when it
    is made, in the thread that will use it; random ports are bound at once, to know them.
    """

    daemon = True
    context_factory: Callable[[], Context] = Context.instance

    def __init__(
        self,
        device_type: int = DeviceType.QUEUE,
        in_type: int | None = None,
        out_type: int | None = None,
    ) -> None:
        if in_type is None or out_type is None:
            raise TypeError("in_type and out_type must be specified")
        self.device_type = device_type
        self.in_type = in_type
        self.out_type = out_type
        self.done = False
        self._todo: dict[str, list[tuple[str, tuple[Any, ...]]]] = {"in": [], "out": [], "mon": []}
        self._made: dict[str, Socket] = {}

    # What sockets will be asked

    def bind_in(self, addr: str) -> None:
        """Bind the incoming socket."""
        self._todo["in"].append(("bind", (addr,)))

    def bind_out(self, addr: str) -> None:
        """Bind the outgoing socket."""
        self._todo["out"].append(("bind", (addr,)))

    def connect_in(self, addr: str) -> None:
        """Connect the incoming socket."""
        self._todo["in"].append(("connect", (addr,)))

    def connect_out(self, addr: str) -> None:
        """Connect the outgoing socket."""
        self._todo["out"].append(("connect", (addr,)))

    def setsockopt_in(self, opt: int, value: Any) -> None:
        """Set an option of the incoming socket."""
        self._todo["in"].append(("setsockopt", (opt, value)))

    def setsockopt_out(self, opt: int, value: Any) -> None:
        """Set an option of the outgoing socket."""
        self._todo["out"].append(("setsockopt", (opt, value)))

    def bind_in_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the incoming socket to a port that is free, and return it."""
        return self._socket("in").bind_to_random_port(addr, *args, **kwargs)

    def bind_out_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the outgoing socket to a port that is free, and return it."""
        return self._socket("out").bind_to_random_port(addr, *args, **kwargs)

    # Running

    def _kind(self, side: str) -> int:
        return {"in": self.in_type, "out": self.out_type}[side]

    def _socket(self, side: str) -> Socket:
        if side == "out" and self.out_type < 0:
            side = "in"
        if side not in self._made:
            self._made[side] = type(self).context_factory().socket(self._kind(side))
        return self._made[side]

    def _set_up(self, *sides: str) -> list[Socket]:
        sockets = []
        for side in sides:
            socket = self._socket(side)
            todo = self._todo[side]
            # Options first: most are taken at the time of a bind or connect.
            for method, args in sorted(todo, key=lambda task: task[0] != "setsockopt"):
                getattr(socket, method)(*args)
            todo.clear()
            sockets.append(socket)
        return sockets

    def run_device(self) -> None:
        """Set up the sockets and pass messages on, until the context ends."""
        proxy(*self._set_up("in", "out"))

    def run(self) -> None:
        """Likewise, and return when the context ends."""
        try:
            self.run_device()
        except ContextTerminated:
            pass
        finally:
            self.done = True
            for socket in self._made.values():
                socket.close()

    def start(self) -> None:
        """Run in this thread."""
        self.run()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the device; one that runs in this thread is done already."""


class Proxy(Device):
    """A Device that copies every message to a third socket."""

    def __init__(self, in_type: int, out_type: int, mon_type: int = PUB) -> None:
        super().__init__(in_type=in_type, out_type=out_type)
        self.mon_type = mon_type

    def _kind(self, side: str) -> int:
        return self.mon_type if side == "mon" else super()._kind(side)

    def bind_mon(self, addr: str) -> None:
        """Bind the copying socket."""
        self._todo["mon"].append(("bind", (addr,)))

    def connect_mon(self, addr: str) -> None:
        """Connect the copying socket."""
        self._todo["mon"].append(("connect", (addr,)))

    def setsockopt_mon(self, opt: SocketOption, value: Any) -> None:
        """Set an option of the copying socket."""
        self._todo["mon"].append(("setsockopt", (opt, value)))

    def bind_mon_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the copying socket to a port that is free, and return it."""
        return self._socket("mon").bind_to_random_port(addr, *args, **kwargs)

    def run_device(self) -> None:
        """See `Device`."""
        proxy(*self._set_up("in", "out", "mon"))


class _InThread(Device):
    """`start` returns at once; the device runs in a thread of its own."""

    _thread: Thread | None = None

    def start(self) -> None:
        """Run in a new thread."""
        self._thread = Thread(target=self.run, name="mq-device", daemon=self.daemon)
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread, for at most `timeout` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)


class ThreadDevice(_InThread):
    """A Device in a thread."""


class ThreadProxy(_InThread, Proxy):
    """A Proxy in a thread."""
