"""Context: pyzmq's context over one of ours.

Who may call it: any thread.
"""

from __future__ import annotations

import os
import sys
import warnings
from errno import EFAULT, EINVAL
from threading import RLock
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakSet

from mq.attributes import OptionAttributes
from mq.constants import ContextOption, SocketOption
from mq.ctx import Ctx
from mq.errors import ZMQError
from mq.socket import Socket

C = TypeVar("C", bound="Context")


class Context(OptionAttributes):
    """A set of sockets that can reach each other, and end together.

    `Context(other)` and `shadow` share the context beneath another, and never terminate it.
    Attributes in lower case are context options, and defaults for the options of new sockets.
    """

    _socket_class: type[Socket] = Socket
    _instance: ClassVar[Any] = None
    _instance_pid: ClassVar[int | None] = None
    _instance_lock: ClassVar[Any] = RLock()
    _shadow = False
    _shadow_obj: Any = None
    _ctx: Ctx | None = None
    _closed = False
    _sockets: Any = None
    sockopts: Any = None

    def __init__(
        self, io_threads: int | Context | Ctx = 1, shadow: Context | Ctx | None = None
    ) -> None:
        threads = 1
        if isinstance(io_threads, int):
            threads = io_threads
        else:
            shadow = io_threads
        self.sockopts = {}
        self._sockets = WeakSet()
        if shadow is None:
            self._ctx = Ctx(threads)
            return
        self._shadow = True
        self._shadow_obj = shadow
        self._ctx = shadow.underlying if isinstance(shadow, Context) else shadow

    @classmethod
    def shadow(cls, address: Context | Ctx) -> Self:
        """Another Context on the context beneath `address`."""
        return cls(shadow=address)

    @classmethod
    def instance(cls, io_threads: int = 1) -> Self:
        """The process's own Context, made at the first call, after it was closed, and in a fork."""
        if not cls._usable_instance():
            with Context._instance_lock:
                if not cls._usable_instance():
                    cls._instance = cls(io_threads)
                    cls._instance_pid = os.getpid()
        instance: Self = cls._instance
        return instance

    @classmethod
    def _usable_instance(cls) -> bool:
        found = cls._instance
        return found is not None and cls._instance_pid == os.getpid() and not found.closed

    def __copy__(self, memo: object = None) -> Self:
        return self.shadow(self.underlying)

    __deepcopy__ = __copy__

    def __del__(self) -> None:
        ctx = self._ctx
        if ctx is None or self._shadow or self._closed or sys is None or sys.is_finalizing():
            return
        if not ctx.terminating:
            # Waiting here could wait for the very thread the finalizer runs in.
            ctx.shut_down_later()
            warnings.warn(f"Unclosed context {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for socket in list(self._sockets):
            if not socket.closed:
                warnings.warn(
                    f"Destroying context with unclosed socket {socket!r}",
                    ResourceWarning,
                    stacklevel=2,
                    source=socket,
                )
        self.destroy()

    def __repr__(self) -> str:
        cls = type(self)
        module = "zmq" if cls.__module__.startswith("mq.") else cls.__module__
        if cls.__module__ == "mq.asyncio":
            module = "zmq.asyncio"
        count = sum(not socket.closed for socket in self._sockets or ())
        sockets = f"{count} socket{'s' * (count > 1)}" if count else ""
        state = " closed" if self.closed else ""
        return f"<{module}.{cls.__qualname__}({sockets}) at {id(self):#x}{state}>"

    # State

    @property
    def underlying(self) -> Ctx:
        """The context beneath; EFAULT once it was terminated."""
        if self._ctx is None or self.closed:
            raise ZMQError(EFAULT)
        return self._ctx

    @property
    def closed(self) -> bool:
        """Whether the context was terminated."""
        return self._closed or self._ctx is None or self._ctx.finished

    # Options

    _option_names = ContextOption

    def get(self, option: int) -> int:
        """A context option."""
        return self.underlying.get(option)

    def set(self, option: int, value: int) -> None:
        """Set a context option."""
        self.underlying.set(option, value)

    def setsockopt(self, opt: int, value: Any) -> None:
        """Set a default for the sockets made from now on."""
        self.sockopts[opt] = value

    def getsockopt(self, opt: int) -> Any:
        """The default set for new sockets; KeyError when there is none."""
        return self.sockopts[opt]

    def _option(self, name: str) -> Any:
        upper = name.upper()
        found = ContextOption.__members__.get(upper)
        return SocketOption.__members__.get(upper) if found is None else found

    def _get_attr_opt(self, name: str, option: int) -> Any:
        if name.upper() in ContextOption.__members__:
            return super()._get_attr_opt(name, option)
        try:
            return self.sockopts[option]
        except KeyError:
            raise AttributeError(name) from None

    def _set_attr_opt(self, name: str, option: int, value: Any) -> None:
        if name.upper() in ContextOption.__members__:
            self.set(option, value)
        else:
            self.sockopts[option] = value

    def __delattr__(self, name: str) -> None:
        option = SocketOption.__members__.get(name.upper())
        if option is None or option not in self.sockopts:
            raise AttributeError(name)
        del self.sockopts[option]

    # Sockets

    def socket(
        self, socket_type: int, socket_class: type[Socket] | None = None, **kwargs: Any
    ) -> Any:
        """A new socket, with the options set on the context as far as its kind has them."""
        if self.closed:
            raise ZMQError(EFAULT)
        socket = (socket_class or self._socket_class)(self, socket_type, **kwargs)
        for option, value in self.sockopts.items():
            try:
                socket.setsockopt(option, value)
            except ZMQError as exc:
                if exc.errno != EINVAL:
                    raise
        self._sockets.add(socket)
        return socket

    # The end

    def term(self) -> None:
        """Make every call fail but close, and wait until all sockets are closed and finished."""
        if not self._closed and self._ctx is not None and not self._shadow:
            self._ctx.terminate()
        self._closed = True

    def destroy(self, linger: int | None = None) -> None:
        """Close all sockets, then `term`.  Only when no other thread uses them."""
        if self._closed:
            return
        sockets, self._sockets = self._sockets, WeakSet()
        for socket in list(sockets):
            if not socket.closed:
                socket.close(linger)
        self.term()


def _renew_lock() -> None:
    Context._instance_lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
