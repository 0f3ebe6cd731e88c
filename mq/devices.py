"""proxy, and devices: a proxy with its own sockets, in the caller's thread or its own.

Settings are recorded, and applied in the thread running the device.
"""

from collections.abc import Callable
from threading import Thread
from typing import Any

from _purgatory_cpython.threads import InterruptibleThread
from mq.constants import DeviceType, Errno, PollEvent, SocketOption, SocketType
from mq.context import Context
from mq.errors import ZMQBindError, ZMQError
from mq.poller import Poller
from mq.socket import Socket
from mq.timeouts import check_timeout

_IN = int(PollEvent.POLLIN)
_OUT = int(PollEvent.POLLOUT)


def proxy(frontend: Any, backend: Any, capture: Any = None) -> None:
    """Forward messages both ways, and a copy of each to `capture`.

    Takes a message only if the other side has room: a full side stops one direction, not both. A
    socket that is both sides gets its messages back. Returns only by raising, as a rule
    `ContextTerminated`. Takes sockets of asyncio too.
    """
    frontend, backend = Socket(shadow=frontend), Socket(shadow=backend)
    capture = None if capture is None else Socket(shadow=capture)
    while True:
        if frontend.underlying == backend.underlying:
            _wait_for_events({frontend: _IN})
            _forward(frontend, backend, capture)
        elif not _forward_ready(frontend, backend, capture):
            _wait_for_events(_missing_events(frontend, backend))


def _forward_ready(frontend: Any, backend: Any, capture: Any) -> bool:
    forwarded = False
    for source, target in ((frontend, backend), (backend, frontend)):
        if _has(source, _IN) and _has(target, _OUT):
            _forward(source, target, capture)
            forwarded = True
    return forwarded


def _missing_events(frontend: Any, backend: Any) -> dict[Any, int]:
    # Of each direction: first a message, then room. Polling for room alone would spin.
    missing = {frontend: 0, backend: 0}
    for source, target in ((frontend, backend), (backend, frontend)):
        if _has(source, _IN):
            missing[target] |= _OUT
        else:
            missing[source] |= _IN
    return missing


def _has(socket: Any, event: int) -> bool:
    return bool(socket.get(SocketOption.EVENTS) & event)


def _wait_for_events(events: dict[Any, int]) -> None:
    poller = Poller()
    for socket, flags in events.items():
        poller.register(socket, flags)
    poller.poll()


def _forward(source: Any, target: Any, capture: Any) -> None:
    parts = source.recv_multipart()
    if capture is not None:
        capture.send_multipart(parts)
    target.send_multipart(parts)


def device(device_type: DeviceType, frontend: Any, backend: Any) -> None:  # noqa: ARG001 - pyzmq's
    """Do the same as `proxy`."""
    proxy(frontend, backend)


class _SocketSetup:
    """The binds, connects and options of one socket."""

    def __init__(self, socket_type: int) -> None:
        self.socket_type = socket_type
        self.binds: list[str] = []
        self.connects: list[str] = []
        self.options: list[tuple[int, Any]] = []

    def apply(self, socket: Any) -> None:
        for option, value in self.options:
            socket.setsockopt(option, value)
        for address in self.binds:
            socket.bind(address)
        for address in self.connects:
            socket.connect(address)


class Device:
    """Forwards messages between an `in` and an `out` socket; `out_type` -1 is the same socket."""

    context_factory: Callable[[], Any] = Context.instance

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
        self.daemon = True
        self.done: bool = False
        self._in = _SocketSetup(in_type)
        self._out = _SocketSetup(out_type)
        self._sides = [self._in, self._out]
        self._reserved: set[str] = set()

    def bind_in(self, addr: str) -> None:
        """Bind the `in` socket."""
        self._in.binds.append(addr)

    def connect_in(self, addr: str) -> None:
        """Connect the `in` socket."""
        self._in.connects.append(addr)

    def setsockopt_in(self, opt: int, value: Any) -> None:
        """Set an option of the `in` socket."""
        self._in.options.append((opt, value))

    def bind_in_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the `in` socket to `addr` and a number; return the number."""
        return self._bind_to_random_port(self._in, addr, *args, **kwargs)

    def bind_out(self, addr: str) -> None:
        """Bind the `out` socket."""
        self._out.binds.append(addr)

    def connect_out(self, addr: str) -> None:
        """Connect the `out` socket."""
        self._out.connects.append(addr)

    def setsockopt_out(self, opt: int, value: Any) -> None:
        """Set an option of the `out` socket."""
        self._out.options.append((opt, value))

    def bind_out_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the `out` socket to `addr` and a number; return the number."""
        return self._bind_to_random_port(self._out, addr, *args, **kwargs)

    def _bind_to_random_port(self, side: _SocketSetup, addr: str, *args: int, **kwargs: int) -> int:
        with Context[Any]() as context, context.socket(SocketType.PUSH) as binder:
            for _ in range(5):
                port: int = binder.bind_to_random_port(addr, *args, **kwargs)
                name = f"{addr}:{port}"
                if name not in self._reserved:
                    self._reserved.add(name)
                    side.binds.append(name)
                    return port
        raise ZMQBindError("Could not reserve random port.")

    def _make_sockets(self) -> list[Any]:
        context = type(self).context_factory()
        made: list[Any] = []
        for side in self._sides:
            same = side is self._out and side.socket_type < 0
            made.append(made[0] if same else context.socket(side.socket_type))
            side.apply(made[-1])
        return made

    def run(self) -> None:
        """Run in this thread until the context ends."""
        sockets: list[Any] = []
        try:
            sockets = self._make_sockets()
            proxy(*sockets)
        except ZMQError as error:
            if error.errno not in (Errno.ETERM, Errno.ENOTSOCK):
                raise
        finally:
            self.done = True
            for socket in sockets:
                socket.close()

    def start(self) -> None:
        """Run; in a subclass, in a thread."""
        self.run()


class Proxy(Device):
    """A device with a third socket, which gets a copy of everything."""

    def __init__(self, in_type: int, out_type: int, mon_type: int = SocketType.PUB) -> None:
        super().__init__(in_type=in_type, out_type=out_type)
        self.mon_type = mon_type
        self._mon = _SocketSetup(mon_type)
        self._sides.append(self._mon)

    def bind_mon(self, addr: str) -> None:
        """Bind the third socket."""
        self._mon.binds.append(addr)

    def connect_mon(self, addr: str) -> None:
        """Connect the third socket."""
        self._mon.connects.append(addr)

    def setsockopt_mon(self, opt: int, value: Any) -> None:
        """Set an option of the third socket."""
        self._mon.options.append((opt, value))

    def bind_mon_to_random_port(self, addr: str, *args: int, **kwargs: int) -> int:
        """Bind the third socket to `addr` and a number; return the number."""
        return self._bind_to_random_port(self._mon, addr, *args, **kwargs)


class _InThread(Device):
    """Runs the device in a separate thread."""

    launcher: Thread | None = None

    def start(self) -> None:
        self.launcher = InterruptibleThread(target=self.run, daemon=self.daemon, name="mq-device")
        self.launcher.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread, at most `timeout` seconds. ValueError for NaN."""
        check_timeout(timeout)
        if self.launcher is not None:
            self.launcher.join(timeout)


class ThreadDevice(_InThread, Device):
    """A Device in a separate thread."""


class ThreadProxy(_InThread, Proxy):
    """A Proxy in a separate thread."""


__all__ = ["Device", "Proxy", "ThreadDevice", "ThreadProxy", "device", "proxy"]
