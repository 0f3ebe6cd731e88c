"""Socket: the handle a program holds, with pyzmq's methods.

`mq.sockets` does the work. Not thread-safe: one thread at a time, as in ZeroMQ.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar
from warnings import warn

from mq.constants import Errno, OptType, PollEvent, SocketOption, SocketType
from mq.core.context_core import ContextCore, find_socket
from mq.core.options import check_linger, check_type, option_type
from mq.errors import ZMQBindError, ZMQError
from mq.frame import COPY_THRESHOLD
from mq.option_attributes import OptionAttributes
from mq.poller import Poller
from mq.serialization import SerializationMixin
from mq.socket_io import SocketIO
from mq.sockets import TYPES, SocketBase

SocketT = TypeVar("SocketT", bound="Socket")


class SocketContext(Generic[SocketT]):
    """Undoes a `bind` or `connect` at the end of a with-block."""

    def __init__(self, socket: SocketT, kind: str, address: str) -> None:
        self.socket = socket
        self.kind = kind
        self.addr = address

    def __enter__(self) -> SocketT:
        return self.socket

    def __exit__(self, *args: object) -> None:
        if self.socket.closed:
            return
        if self.kind == "bind":
            self.socket.unbind(self.addr)
        else:
            self.socket.disconnect(self.addr)

    def __repr__(self) -> str:
        return f"<SocketContext({self.kind}={self.addr!r})>"


class ContextHandle(Protocol):
    """The part of a context that a socket needs."""

    closed: bool
    _core: ContextCore

    def _rm_socket(self, socket: Any) -> None:
        """See `Context`."""

    def socket(self, socket_type: int) -> Any:
        """See `Context`."""

    def term(self) -> None:
        """See `Context`."""

    def destroy(self, linger: int | None = None) -> None:
        """See `Context`."""


class Socket(SocketIO, SerializationMixin, OptionAttributes):
    """A socket of a context, or with `shadow` another handle."""

    context: ContextHandle | None
    _shadow = False
    _shadow_obj: Any = None
    _type_name = "UNKNOWN"
    _repr_cls = "zmq.Socket"
    _poller_class: ClassVar[type[Poller]] = Poller

    def __init__(
        self,
        ctx_or_socket: "ContextHandle | Socket | None" = None,
        socket_type: int = -1,
        *,
        shadow: "Socket | int" = 0,
        copy_threshold: int | None = None,
    ) -> None:
        if isinstance(ctx_or_socket, Socket):
            shadow, ctx_or_socket = ctx_or_socket, None
        self.copy_threshold = COPY_THRESHOLD if copy_threshold is None else copy_threshold
        self.context = ctx_or_socket
        if shadow:
            self._init_shadow(shadow)
            self._init_type()
        else:
            self._init_new(ctx_or_socket, socket_type)

    def _init_type(self) -> None:
        kind = SocketType(self._core.socket_type)
        self.__dict__["type"] = kind
        self._type_name = kind.name

    def _init_shadow(self, shadow: "Socket | int") -> None:
        self._shadow = True
        self._shadow_obj = shadow
        if isinstance(shadow, Socket):
            self._core = shadow._core
            self.context = shadow.context
            return
        core = find_socket(shadow)
        if not isinstance(core, SocketBase):
            raise ZMQError(Errno.ENOTSOCK)
        self._core = core

    def _init_new(self, context: ContextHandle | None, socket_type: int) -> None:
        if context is None:
            raise TypeError("context must be specified")
        if socket_type < 0:
            raise TypeError("socket_type must be specified")
        factory = TYPES.get(int(socket_type))
        if factory is None:
            raise ZMQError(Errno.EINVAL)
        core = context._core.create_socket(factory)
        try:
            self._core = core
            self._init_type()
        except BaseException:  # an interrupt: the caller has nothing to close
            core.close()
            raise

    @classmethod
    def shadow(cls, address: "int | Socket") -> "Socket":
        """Return another handle for a socket, given a handle or its `underlying`."""
        return cls(shadow=address)

    def __copy__(self, memo: object = None) -> "Socket":
        return type(self).shadow(self.underlying)

    __deepcopy__ = __copy__

    @property
    def underlying(self) -> int:
        """The socket's number, the same in all its handles."""
        return id(self._core)

    @property
    def closed(self) -> bool:
        """Whether the socket is closed, by any handle."""
        core = getattr(self, "_core", None)  # None: it could not be made
        return core is None or core.closed

    @property
    def socket_type(self) -> int:
        """Deprecated: use `type`."""
        warn("Socket.socket_type is deprecated, use Socket.type", DeprecationWarning, stacklevel=2)
        return int(self._core.socket_type)

    # -- life --------------------------------------------------------------------------------

    def close(self, linger: int | None = None) -> None:
        """Close the socket. Never waits, and messages sent stay readable. Idempotent.

        `linger` has no effect. If it is no int of 32 bits (TypeError, OverflowError), the socket
        stays open.
        """
        check_linger(linger)
        self._core.close()
        if self.context is not None:  # last: after an interrupt `Context.destroy` closes it
            self.context._rm_socket(self)

    def __del__(self) -> None:
        if not self._shadow and not self.closed:
            try:
                warn(f"Unclosed socket {self}", ResourceWarning, stacklevel=2, source=self)
            finally:  # a warning may be made an error
                self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be pickled: only this process can use the handle")

    def __repr__(self) -> str:
        name = type(self).__dict__.get("_repr_cls")
        name = name or f"{type(self).__module__}.{type(self).__name__}"
        closed = " closed" if self.closed else ""
        return f"<{name}(zmq.{self._type_name}) at {id(self):#x}{closed}>"

    def __dir__(self) -> list[str]:
        return [*dir(type(self)), *SocketOption.__members__]

    # -- endpoints ---------------------------------------------------------------------------

    def bind(self, addr: str | bytes) -> "SocketContext[Self]":
        """Accept connections to `addr`, inproc://...; a with-block undoes it.

        EADDRINUSE, EINVAL, or EPROTONOSUPPORT for other transports.
        """
        address = _text(addr)
        self._with_address(self._core.bind, address)
        return SocketContext(self, "bind", address)

    def connect(self, addr: str | bytes) -> "SocketContext[Self]":
        """Connect to `addr`, bound now or later; a with-block undoes it."""
        address = _text(addr)
        self._with_address(self._core.connect, address)
        return SocketContext(self, "connect", address)

    def _with_address(self, call: Callable[[str], None], address: str) -> None:
        try:
            call(address)
        except ZMQError as error:
            error.strerror += f" (addr={address!r})"
            raise

    def unbind(self, addr: str | bytes) -> None:
        """Accept no more connections to `addr`; present connections stay.

        As `disconnect` if only connected. ENOENT if neither.
        """
        self._core.unbind(_text(addr))

    def disconnect(self, addr: str | bytes) -> None:
        """End the connections made to `addr`.

        Messages unread by this socket, or sent before a bind, are lost. As `unbind` if only bound.
        ENOENT if neither.
        """
        self._core.disconnect(_text(addr))

    def bind_to_random_port(
        self, addr: str, min_port: int = 49152, max_port: int = 65536, max_tries: int = 100
    ) -> int:
        """Bind to `addr`, a colon and a random number; return the number."""
        import random  # noqa: PLC0415 - few programs need it

        for _ in range(max_tries):
            port = random.randrange(min_port, max_port)
            try:
                self.bind(f"{addr}:{port}")
            except ZMQError as error:
                if error.errno != Errno.EADDRINUSE:
                    raise
            else:
                return port
        raise ZMQBindError("Could not bind socket to random port.")

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, optval: Any) -> None:
        """Set an option; TypeError for another type, else EINVAL."""
        core = self._core
        if core.closed:
            raise ZMQError(Errno.ENOTSOCK)
        core.set(int(option), check_type(option, optval))

    def get(self, option: int) -> Any:
        """Read an option; EINVAL if unknown or write-only."""
        return self._core.get(int(option))

    setsockopt = set  # noqa: A003 - the method above, and not the builtin
    getsockopt = get

    def set_string(self, option: int, optval: str, encoding: str = "utf-8") -> None:
        """Set a bytes option to an encoded string."""
        if not isinstance(optval, str):
            raise TypeError(f"strings only, not {type(optval)}: {optval!r}")
        self.set(option, optval.encode(encoding))

    def get_string(self, option: int, encoding: str = "utf-8") -> str:
        """Read a bytes option as a string."""
        if option_type(option) is not OptType.bytes:
            raise TypeError(f"option {option} will not return a string to be decoded")
        value: bytes = self.get(option)
        return value.decode(encoding)

    setsockopt_string = setsockopt_unicode = set_string
    getsockopt_string = getsockopt_unicode = get_string

    @property
    def hwm(self) -> int:
        """SNDHWM; setting it sets RCVHWM too."""
        value: int = self.get(SocketOption.SNDHWM)
        return value

    @hwm.setter
    def hwm(self, value: int) -> None:
        self.set(SocketOption.SNDHWM, value)
        self.set(SocketOption.RCVHWM, value)

    def get_hwm(self) -> int:
        """Return SNDHWM."""
        return self.hwm

    def set_hwm(self, value: int) -> None:
        """Set SNDHWM and RCVHWM."""
        self.hwm = value

    def __setattr__(self, key: str, value: Any) -> None:
        if key.lower() in ("subscribe", "unsubscribe"):
            topic = value.encode() if isinstance(value, str) else value
            self.set(SocketOption[key.upper()], topic)
            return
        super().__setattr__(key, value)

    def subscribe(self, topic: str | bytes) -> None:
        """Let messages through that begin with `topic`. SUB only."""
        self.set(SocketOption.SUBSCRIBE, topic.encode() if isinstance(topic, str) else topic)

    def unsubscribe(self, topic: str | bytes) -> None:
        """Undo one `subscribe`. SUB only."""
        self.set(SocketOption.UNSUBSCRIBE, topic.encode() if isinstance(topic, str) else topic)

    def fileno(self) -> int:
        """Return FD, edge-triggered: when it fires, read EVENTS and act until none is left."""
        fd: int = self.get(SocketOption.FD)
        return fd

    # -- waiting -----------------------------------------------------------------------------

    def poll(self, timeout: float | None = None, flags: int = PollEvent.POLLIN) -> Any:
        """Wait at most `timeout` ms (None: for ever) for `flags`; return the present events."""
        if self.closed:
            raise ZMQError(Errno.ENOTSUP)
        poller = self._poller_class()
        poller.register(self, flags)
        return dict(poller.poll(timeout)).get(self, 0)


def _text(address: str | bytes) -> str:
    if isinstance(address, str):
        address.encode()  # raises UnicodeEncodeError for text that is no bytes
        return address
    if isinstance(address, bytes):
        return address.decode(errors="surrogateescape")
    raise TypeError(f"Expected addr to be str, got addr={address!r}")
