"""Socket: pyzmq's socket over one of ours.

Who may call it: one thread at a time, as for `mq.sockets.base`; `close` a finalizer too.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from errno import EADDRINUSE, EINVAL, ENOTSOCK
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from mq import constants
from mq.attributes import OptionAttributes
from mq.constants import SocketOption as Opt
from mq.constants import SocketType
from mq.errors import ZMQBindError, ZMQError
from mq.message import _FINISHED_TRACKER, Frame, MessageTracker, buffer_bytes, payload_bytes
from mq.options import is_bytes
from mq.poller import Poller
from mq.sockets import KINDS
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.context import Context

S = TypeVar("S", bound="Socket")
_SNDMORE = int(constants.SNDMORE)


class _Scope(Generic[S]):
    """What bind and connect return: used with `with`, it undoes them at the end."""

    __slots__ = ("_address", "_kind", "_socket")

    def __init__(self, socket: S, kind: str, address: str) -> None:
        self._socket = socket
        self._kind = kind
        self._address = address

    def __enter__(self) -> S:
        return self._socket

    def __exit__(self, *exc: object) -> None:
        if self._socket.closed:
            return
        undo = self._socket.unbind if self._kind == "bind" else self._socket.disconnect
        undo(self._address)

    def __repr__(self) -> str:
        return f"<SocketContext({self._kind}={self._address!r})>"


class Socket(OptionAttributes):
    """A socket of `context`.  `Socket(other)` and `shadow` share the socket beneath another.

    Options are attributes too, in lower case: `socket.linger = 0`.
    """

    context: Any = None
    copy_threshold: int = 65536
    _shadow = False
    _shadow_obj: Any = None
    _base: SocketBase | None = None
    _kind_name = ""

    def __init__(
        self,
        context: Context | Socket | SocketBase | None = None,
        socket_type: int = -1,
        shadow: Socket | SocketBase | None = None,
        copy_threshold: int | None = None,
    ) -> None:
        if isinstance(context, Socket | SocketBase):
            context, shadow = None, context
        if copy_threshold is not None:
            self.copy_threshold = copy_threshold
        if shadow is not None:
            self._share(shadow)
        else:
            if context is None:
                raise TypeError("a socket needs a context")
            self._create(context, socket_type)
        assert self._base is not None
        self._kind_name = self._base.kind.name

    def _share(self, shadow: Socket | SocketBase) -> None:
        self._shadow = True
        self._shadow_obj = shadow
        if isinstance(shadow, Socket):
            self.context = shadow.context
            self._base = shadow.underlying
        else:
            self._base = shadow

    def _create(self, context: Context, socket_type: int) -> None:
        if socket_type not in KINDS:
            raise ZMQError(EINVAL)
        self.context = context
        self._base = context.underlying.create_socket(KINDS[socket_type])

    @classmethod
    def shadow(cls, address: Socket | SocketBase) -> Self:
        """Another Socket on the socket beneath `address`."""
        return cls(shadow=address)

    def __copy__(self, memo: object = None) -> Self:
        return self.shadow(self.underlying)

    __deepcopy__ = __copy__

    def __del__(self) -> None:
        if self._base is None or self._shadow or self._base.closed:
            return
        if sys is not None and not sys.is_finalizing():
            self.close()  # first: the warning may be an error
            warnings.warn(f"Unclosed socket {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        cls = type(self)
        module = "zmq" if cls.__module__.startswith("mq.") else cls.__module__
        if cls.__module__ == "mq.asyncio":
            module = "zmq.asyncio"
        state = " closed" if self.closed else ""
        return f"<{module}.{cls.__qualname__}(zmq.{self._kind_name}) at {id(self):#x}{state}>"

    # State

    @property
    def underlying(self) -> SocketBase:
        """The socket beneath; ENOTSOCK for a Socket that was never made."""
        if self._base is None:
            raise ZMQError(ENOTSOCK)
        return self._base

    @property
    def closed(self) -> bool:
        """Whether the socket was closed, here or by its context."""
        return self._base is None or self._base.closed

    @property
    def socket_type(self) -> SocketType:
        """The kind of socket."""
        return self.underlying.kind

    @property
    def type(self) -> SocketType:
        """The kind of socket."""
        return self.underlying.kind

    def close(self, linger: int | None = None) -> None:
        """Close the socket; what was sent stays on its way.  Idempotent."""
        base = self._base
        if base is None or base.closed:
            return
        if linger is not None:
            base.linger_ms = linger
        base.close()

    def fileno(self) -> int:
        """The descriptor that becomes readable when `getsockopt(EVENTS)` should be asked again."""
        return int(self.get(Opt.FD))

    # Options

    def set(self, option: int, value: Any) -> None:
        """Set an option; EINVAL for a bad one or a bad value, TypeError for a bad type."""
        if option == Opt.HWM:
            self.set_hwm(value)
        else:
            self.underlying.setsockopt(option, value)

    def get(self, option: int) -> Any:
        """The value of an option; EINVAL when it is unknown."""
        if option == Opt.HWM:
            return self.get_hwm()
        return self.underlying.getsockopt(option)

    setsockopt = set  # noqa: A003 - the method above is meant
    getsockopt = get

    def set_string(self, option: int, optval: str, encoding: str = "utf-8") -> None:
        """Set an option of bytes from text."""
        if not isinstance(optval, str):
            raise TypeError(f"Only str, not {type(optval)}")
        self.set(option, optval.encode(encoding))

    def get_string(self, option: int, encoding: str = "utf-8") -> str:
        """The text of an option of bytes."""
        if not is_bytes(option):
            raise TypeError(f"option {option} will not return a string to be decoded")
        value: bytes = self.get(option)
        return value.decode(encoding)

    setsockopt_string = setsockopt_unicode = set_string
    getsockopt_string = getsockopt_unicode = get_string

    def get_hwm(self) -> int:
        """The high-water mark for sending."""
        return int(self.get(Opt.SNDHWM))

    def set_hwm(self, value: int) -> None:
        """Set both high-water marks, in messages; 0 is no limit."""
        self.set(Opt.SNDHWM, value)
        self.set(Opt.RCVHWM, value)

    hwm = property(get_hwm, set_hwm, None, "Both high-water marks.")

    def subscribe(self, topic: str | bytes) -> None:
        """Receive what begins with `topic`."""
        self.set(Opt.SUBSCRIBE, topic.encode() if isinstance(topic, str) else topic)

    def unsubscribe(self, topic: str | bytes) -> None:
        """End one subscription to `topic`."""
        self.set(Opt.UNSUBSCRIBE, topic.encode() if isinstance(topic, str) else topic)

    # Addresses

    def bind(self, addr: str | bytes) -> _Scope[Self]:
        """Make `addr` reach this socket."""
        name = self._address(self.underlying.bind, addr)
        return _Scope(self, "bind", name)

    def connect(self, addr: str | bytes) -> _Scope[Self]:
        """Connect to `addr`, now or as soon as it is bound."""
        name = self._address(self.underlying.connect, addr)
        return _Scope(self, "connect", name)

    def unbind(self, addr: str | bytes) -> None:
        """Free `addr`; connections stay."""
        self._address(self.underlying.unbind, addr)

    def disconnect(self, addr: str | bytes) -> None:
        """End the connections made to `addr`."""
        self._address(self.underlying.disconnect, addr)

    def _address(self, act: Callable[[str], None], addr: str | bytes) -> str:
        name = addr.decode() if isinstance(addr, bytes) else addr
        if not isinstance(name, str):
            raise TypeError(f"an address is text, not {addr!r}")
        try:
            act(name)
        except ZMQError as exc:
            exc.strerror = f"{exc.strerror} (addr={name!r})"
            raise
        return name

    def bind_to_random_port(
        self, addr: str, min_port: int = 49152, max_port: int = 65536, max_tries: int = 100
    ) -> int:
        """Bind `addr:port` for a port not in use; ZMQBindError after `max_tries`."""
        for _ in range(max_tries):
            port = random.randrange(min_port, max_port)
            try:
                self.bind(f"{addr}:{port}")
            except ZMQError as exc:
                if exc.errno != EADDRINUSE:
                    raise
            else:
                return port
        raise ZMQBindError("Could not bind socket to random port.")

    # Sending

    def send(
        self,
        data: Any,
        flags: int = 0,
        copy: bool = True,
        track: bool = False,
        routing_id: int | None = None,
        group: str | None = None,
    ) -> MessageTracker | None:
        """Send one part: bytes, anything with a buffer, or a Frame.

        With `track` (and `copy=False`) returns a MessageTracker.  Again when there is no room.
        """
        if routing_id is not None or group is not None:
            raise ZMQError(EINVAL)
        base = self._base
        if base is None:
            raise ZMQError(ENOTSOCK)
        if type(data) is bytes and (copy or not track):
            base.send(data, flags)
            return None
        return self._send_other(base, data, flags, copy=copy, track=track)

    def _send_other(
        self, base: SocketBase, data: Any, flags: int, *, copy: bool, track: bool
    ) -> MessageTracker | None:
        if isinstance(data, str):
            raise TypeError("unicode not allowed, use send_string")
        if isinstance(data, Frame):
            if track and data.tracker is None:
                raise ValueError("Not a tracked message")
            base.send(payload_bytes(data.payload) if copy else data.payload, flags)
            return None if copy else data.tracker
        if copy or not track:
            base.send(buffer_bytes(data), flags)
            return None
        if self.copy_threshold and memoryview(data).nbytes < self.copy_threshold:
            base.send(buffer_bytes(data), flags)
            return _FINISHED_TRACKER
        frame = Frame(data, track=True, copy=False)
        base.send(frame.payload, flags)
        return frame.tracker

    def send_multipart(
        self,
        msg_parts: Sequence[Any],
        flags: int = 0,
        copy: bool = True,
        track: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Send a message of several parts.  TypeError before anything is sent."""
        for number, part in enumerate(msg_parts):
            if not isinstance(part, bytes | Frame | bytearray | memoryview):
                _require_buffer(number, part)
        for part in msg_parts[:-1]:
            self.send(part, flags | _SNDMORE, copy=copy, track=track)
        return self.send(msg_parts[-1], flags, copy=copy, track=track, **kwargs)

    def send_serialized(
        self,
        msg: Any,
        serialize: Callable[[Any], Sequence[Any]],
        flags: int = 0,
        copy: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Send the parts that `serialize` makes of `msg`."""
        return self.send_multipart(serialize(msg), flags=flags, copy=copy, **kwargs)

    def send_string(
        self, u: str, flags: int = 0, copy: bool = True, encoding: str = "utf-8", **kwargs: Any
    ) -> Any:
        """Send text."""
        if not isinstance(u, str):
            raise TypeError("str objects only")
        return self.send(u.encode(encoding), flags=flags, copy=copy, **kwargs)

    send_unicode = send_string

    def send_pyobj(
        self, obj: Any, flags: int = 0, protocol: int = pickle.DEFAULT_PROTOCOL, **kwargs: Any
    ) -> Any:
        """Send a pickled object."""
        return self.send(pickle.dumps(obj, protocol), flags=flags, **kwargs)

    def send_json(self, obj: Any, flags: int = 0, **kwargs: Any) -> Any:
        """Send an object as JSON; keyword arguments other than send's go to `json.dumps`."""
        of_send = {k: kwargs.pop(k) for k in ("routing_id", "group") if k in kwargs}
        text = json.dumps(obj, **{"ensure_ascii": False, "separators": (",", ":"), **kwargs})
        return self.send(text.encode(), flags=flags, **of_send)

    # Receiving

    def recv(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """One part: bytes, or with `copy=False` a Frame.  Again when there is none."""
        base = self._base
        if base is None:
            raise ZMQError(ENOTSOCK)
        part = base.recv(flags)
        if copy:
            payload = part[0]
            return payload if type(payload) is bytes else payload_bytes(payload)
        frame = Frame.received(part)
        if track:
            frame.tracker = _FINISHED_TRACKER
        return frame

    def recv_into(self, buffer: Any, /, *, nbytes: int = 0, flags: int = 0) -> int:
        """Receive one part into `buffer`, cut to `nbytes` (0: what fits); its whole length."""
        view = memoryview(buffer)
        if not view.contiguous:
            raise BufferError("Can only recv_into contiguous buffers")
        if view.readonly:
            raise BufferError("Cannot recv_into readonly buffer")
        if nbytes < 0:
            raise ValueError(f"{nbytes=} must be non-negative")
        if nbytes > view.nbytes:
            raise ValueError(f"{nbytes=} too big for memoryview of {view.nbytes}B")
        data = payload_bytes(self.underlying.recv(flags)[0])
        count = min(nbytes or view.nbytes, len(data))
        if count:
            view.cast("B")[:count] = data[:count]
        return len(data)

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """All parts of a message, in a list."""
        parts = [self.recv(flags, copy=copy, track=track)]
        base = self.underlying
        while base.rcvmore:
            parts.append(self.recv(flags, copy=copy, track=track))
        return parts

    def _deserialize(self, recvd: Any, load: Callable[[Any], Any]) -> Any:
        return load(recvd)

    def recv_serialized(
        self, deserialize: Callable[[Any], Any], flags: int = 0, copy: bool = True
    ) -> Any:
        """What `deserialize` makes of the parts of a message."""
        return self._deserialize(self.recv_multipart(flags=flags, copy=copy), deserialize)

    def recv_string(self, flags: int = 0, encoding: str = "utf-8") -> Any:
        """Text."""
        return self._deserialize(self.recv(flags=flags), lambda data: data.decode(encoding))

    recv_unicode = recv_string

    def recv_pyobj(self, flags: int = 0) -> Any:
        """A pickled object; only from whom you trust."""
        return self._deserialize(self.recv(flags=flags), pickle.loads)

    def recv_json(self, flags: int = 0, **kwargs: Any) -> Any:
        """An object sent as JSON; keyword arguments go to `json.loads`."""
        return self._deserialize(self.recv(flags), lambda data: json.loads(data, **kwargs))

    # Polling

    _poller_class: Any = Poller

    def poll(self, timeout: float | None = None, flags: int = int(constants.POLLIN)) -> Any:
        """The events among `flags` within `timeout` milliseconds (None: for ever)."""
        if self.closed:
            raise ZMQError(ENOTSOCK)
        poller = self._poller_class()
        poller.register(self, flags)
        return dict(poller.poll(timeout)).get(self, 0)


def _require_buffer(number: int, part: Any) -> None:
    try:
        memoryview(part)
    except TypeError:
        raise TypeError(
            f"Frame {number} ({part!r:.32}) does not support the buffer interface."
        ) from None
