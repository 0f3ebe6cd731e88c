"""Context: the handle a program holds, with pyzmq's methods. From any thread.

A garbage context is destroyed with its sockets. The interpreter's exit waits for none.
"""

import atexit
import os
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar
from warnings import warn

from _purgatory_cpython import at_exit, fork
from _purgatory_cpython.locks import new_lock
from _purgatory_cpython.weak_identity_set import WeakIdentitySet
from mq.constants import ContextOption, Errno, SocketOption
from mq.core import context_core as core
from mq.core.options import check_linger
from mq.errors import ZMQError
from mq.option_attributes import OptionAttributes
from mq.socket import Socket

S = TypeVar("S", bound=Socket)

_interpreter_exiting: list[bool] = []
atexit.register(_interpreter_exiting.append, True)


class _InstanceLock:
    """Guards `Context.instance`; replaced after a fork."""

    def __init__(self) -> None:
        self.lock = new_lock()
        fork.register(self)
        at_exit.register_locks(self)

    def after_fork(self) -> None:
        self.lock = new_lock()


class Context(OptionAttributes, Generic[S]):
    """Makes sockets, and ends them all.

    `Context(other)` and `shadow=` make another handle.
    """

    sockopts: dict[int, Any]
    closed: bool
    _core: core.ContextCore
    _sockets: WeakIdentitySet[Any]
    _shadow = False
    _shadow_obj: Any = None
    _warn_destroy_close = False
    _instance: ClassVar[Any] = None
    _instance_pid: ClassVar[int | None] = None
    _instance_lock: ClassVar[_InstanceLock] = _InstanceLock()
    _socket_class: Any = Socket
    _repr_cls = "zmq.Context"

    def __init__(
        self: "Context[Any]",  # else a type checker asks for an annotation of each context
        io_threads: "int | Context[Any]" = 1,
        shadow: "Context[Any] | int" = 0,
    ) -> None:
        if isinstance(io_threads, Context):
            io_threads, shadow = 1, io_threads
        if shadow:
            self._shadow = True
            self._shadow_obj = shadow
            self._core = _find_core(shadow)
        else:
            self._core = core.ContextCore(
                int(io_threads) if isinstance(io_threads, float) else io_threads
            )
        self.closed = False
        self.sockopts = {}
        self._sockets = WeakIdentitySet()

    @classmethod
    def shadow(cls, address: "int | Context[Any]") -> Self:
        """Return another handle for a context, given a handle or its `underlying`."""
        return cls(shadow=address)

    def __copy__(self, memo: object = None) -> Self:
        return type(self).shadow(self.underlying)

    __deepcopy__ = __copy__

    @classmethod
    def instance(cls, io_threads: int = 1) -> Self:
        """Return the process's context; a new one after a close or a fork."""
        found: Any = cls._current()
        if found is None:
            with cls._instance_lock.lock:
                found = cls._current()
                if found is None:
                    found = cls(io_threads=io_threads)
                    cls._instance = found
                    cls._instance_pid = os.getpid()
        instance: Self = found
        return instance

    @classmethod
    def _current(cls) -> Any:
        found = cls._instance
        if found is None or found.closed or cls._instance_pid != os.getpid():
            return None
        return found

    @property
    def underlying(self) -> int:
        """The context's number, the same in all its handles."""
        return id(self._core)

    def socket(
        self, socket_type: int, socket_class: Callable[..., Any] | None = None, **kwargs: Any
    ) -> Any:
        """Make a socket, with this context's options for sockets.

        ENOTSUP after `term`, ETERM during it, EMFILE when MAX_SOCKETS are open.
        """
        if self.closed:
            raise ZMQError(Errno.ENOTSUP)
        socket = (socket_class or self._socket_class)(self, socket_type, **kwargs)
        try:
            self._sockets.add(socket)
            self._set_options(socket)
        except BaseException:  # an interrupt: the caller has nothing to close
            socket.close()
            raise
        return socket

    def _set_options(self, socket: Any) -> None:
        for option, value in self.sockopts.items():
            try:
                socket.setsockopt(option, value)
            except ZMQError:
                pass  # the option of another socket type

    def _rm_socket(self, socket: Any) -> None:
        sockets = self.__dict__.get("_sockets")
        if sockets is not None:
            sockets.discard(socket)

    def set(self, option: int, optval: int) -> None:
        """Set an option; EINVAL, or TypeError if it is no int."""
        self._check_open()
        self._core.set(option, optval)

    def get(self, option: int) -> int:
        """Read an option; EINVAL."""
        self._check_open()
        return self._core.get(option)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("Context has been destroyed")

    def setsockopt(self, opt: int, value: Any) -> None:
        """Set an option of all sockets made from now on."""
        self.sockopts[opt] = value

    def getsockopt(self, opt: int) -> Any:
        """Return an option set by `setsockopt`."""
        return self.sockopts[opt]

    def _set_attr_opt(self, name: str, option: int, value: Any) -> None:
        if name in ContextOption.__members__:
            self.set(option, value)
        elif name in SocketOption.__members__:
            self.sockopts[option] = value
        else:
            raise AttributeError(f"No such context or socket option: {name}")

    def _get_attr_opt(self, name: str, option: int) -> Any:
        if name in ContextOption.__members__:
            return self.get(option)
        if option not in self.__dict__.get("sockopts", {}):
            raise AttributeError(name)
        return self.sockopts[option]

    def __delattr__(self, key: str) -> None:
        if key in self.__dict__:
            del self.__dict__[key]
            return
        option = SocketOption.__members__.get(key.upper())
        if option is None or option not in self.sockopts:
            raise AttributeError(f"No such socket option: {key!r}")
        del self.sockopts[option]

    def __dir__(self) -> list[str]:
        return [*dir(type(self)), *ContextOption.__members__]

    def term(self) -> None:
        """Fail all calls on all sockets, then wait until each is closed.

        Also waits until the receivers have read, or dropped, the messages sent. Does not wait at
        the interpreter's exit.
        """
        self._core.term()
        self.closed = True

    def destroy(self, linger: int | None = None) -> None:
        """Close all sockets of this handle, then `term`. Not while other threads use them.

        `linger`: see `Socket.close`; a bad one closes nothing.
        """
        check_linger(linger)
        if self.closed:
            return
        left = [socket for socket in self._sockets if not socket.closed]
        names = [str(socket) for socket in left]
        for socket in left:
            socket.close(linger)
        self.term()
        if self._warn_destroy_close:
            for name in names:
                what = f"Destroyed context with unclosed socket {name}"
                warn(what, ResourceWarning, stacklevel=3, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._warn_destroy_close = True
        self.destroy()

    def __del__(self) -> None:
        if (
            self._shadow
            or _interpreter_exiting
            or self.__dict__.get("closed", True)
            or self._core.forked
        ):
            return
        try:
            warn(f"Unclosed context {self}", ResourceWarning, stacklevel=2, source=self)
        finally:  # a warning may be made an error
            for socket in self._sockets:
                socket.close()
            self._core.termination.request_term()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be pickled: only this process can use the handle")

    def __repr__(self) -> str:
        name = type(self).__dict__.get("_repr_cls")
        name = name or f"{type(self).__module__}.{type(self).__name__}"
        number = len(list(self._sockets))
        sockets = f"{number} socket{'s' if number > 1 else ''}" if number else ""
        closed = " closed" if self.closed else ""
        return f"<{name}({sockets}) at {id(self):#x}{closed}>"


def _find_core(shadow: "Context[Any] | int") -> core.ContextCore:
    if isinstance(shadow, Context):
        return shadow._core
    found = core.live_contexts.get(shadow)
    if found is None:
        raise ZMQError(Errno.EFAULT)
    return found
