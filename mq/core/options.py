"""Options of sockets: which exist, what they hold, what they accept.

`Options` is owned by its socket's thread.  What only a network uses is stored and read back and
otherwise ignored, so that programs which set it run unchanged.
"""

from mq.constants import Errno, OptType, SocketOption
from mq.errors import ZMQError

Value = int | bytes

#: Switches of socket types, which are set and never read back.
_SWITCHES = frozenset(
    {
        SocketOption.PROBE_ROUTER,
        SocketOption.REQ_CORRELATE,
        SocketOption.REQ_RELAXED,
        SocketOption.ROUTER_HANDOVER,
        SocketOption.ROUTER_MANDATORY,
        SocketOption.XPUB_MANUAL,
        SocketOption.XPUB_NODROP,
        SocketOption.XPUB_VERBOSE,
        SocketOption.XPUB_VERBOSER,
    }
)

_BOOLEAN = _SWITCHES | frozenset(
    {
        SocketOption.CONFLATE,
        SocketOption.GSSAPI_PLAINTEXT,
        SocketOption.GSSAPI_SERVER,
        SocketOption.CURVE_SERVER,
        SocketOption.IMMEDIATE,
        SocketOption.INVERT_MATCHING,
        SocketOption.IPV4ONLY,
        SocketOption.IPV6,
        SocketOption.PLAIN_SERVER,
    }
)

#: The minimum of options that have one.
_MINIMUM = {
    SocketOption.SNDHWM: 0,
    SocketOption.RCVHWM: 0,
    SocketOption.LINGER: -1,
    SocketOption.RCVTIMEO: -1,
    SocketOption.SNDTIMEO: -1,
    SocketOption.BACKLOG: 0,
    SocketOption.RECONNECT_IVL: -1,
    SocketOption.RECONNECT_IVL_MAX: 0,
    SocketOption.SNDBUF: -1,
    SocketOption.RCVBUF: -1,
}

_DEFAULTS: dict[int, Value] = {
    SocketOption.SNDHWM: 1000,
    SocketOption.RCVHWM: 1000,
    SocketOption.LINGER: -1,
    SocketOption.RCVTIMEO: -1,
    SocketOption.SNDTIMEO: -1,
    SocketOption.RATE: 100,
    SocketOption.RECOVERY_IVL: 10000,
    SocketOption.SNDBUF: -1,
    SocketOption.RCVBUF: -1,
    SocketOption.RECONNECT_IVL: 100,
    SocketOption.BACKLOG: 100,
    SocketOption.MAXMSGSIZE: -1,
    SocketOption.MULTICAST_HOPS: 1,
    SocketOption.MULTICAST_MAXTPDU: 1500,
    SocketOption.TCP_KEEPALIVE: -1,
    SocketOption.TCP_KEEPALIVE_CNT: -1,
    SocketOption.TCP_KEEPALIVE_IDLE: -1,
    SocketOption.TCP_KEEPALIVE_INTVL: -1,
    SocketOption.IPV4ONLY: 1,
    SocketOption.HANDSHAKE_IVL: 30000,
    SocketOption.HEARTBEAT_TIMEOUT: -1,
    SocketOption.USE_FD: -1,
    SocketOption.MULTICAST_LOOP: 1,
}

#: Known to a socket itself, never set and never stored.
_READ_ONLY = frozenset(
    {
        SocketOption.EVENTS,
        SocketOption.FD,
        SocketOption.LAST_ENDPOINT,
        SocketOption.MECHANISM,
        SocketOption.RCVMORE,
        SocketOption.THREAD_SAFE,
        SocketOption.TYPE,
        SocketOption.TOPICS_COUNT,
        SocketOption.HWM,
    }
)

#: Set, and never read back.
_WRITE_ONLY = _SWITCHES | frozenset(
    {
        SocketOption.SUBSCRIBE,
        SocketOption.UNSUBSCRIBE,
        SocketOption.CONNECT_ROUTING_ID,
        SocketOption.XPUB_WELCOME_MSG,
        SocketOption.HWM,
    }
)


def option_type(option: int) -> OptType:
    """Return what `option` holds.  An unknown one counts as an int and is refused later."""
    try:
        return SocketOption(option).opt_type
    except ValueError:
        return OptType.int


def check_type(option: int, value: object) -> Value:
    """Return `value` if it has the option's type, else raise TypeError."""
    if isinstance(value, str):
        raise TypeError("unicode not allowed, use setsockopt_string")
    if option_type(option) is OptType.bytes:
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got: {value!r}")
        return value
    if not isinstance(value, int):
        raise TypeError(f"expected int, got: {value!r}")
    return int(value)


class Options:
    """The options of one socket.  EINVAL for all that is unknown or out of range."""

    def __init__(self) -> None:
        self._values = dict(_DEFAULTS)
        self.routing_id: bytes = b""
        self.rcvtimeo: float | None = None  # seconds, None for ever: what waiting needs
        self.sndtimeo: float | None = None

    def __getitem__(self, option: int) -> int:
        """Return an int option, 0 if it was never set."""
        value = self._values.get(option, 0)
        assert isinstance(value, int)
        return value

    def set(self, option: int, value: Value) -> None:
        """Store a value of the right type after checking its range."""
        _require(option in SocketOption.__members__.values() and option not in _READ_ONLY)
        if isinstance(value, bytes):
            if option == SocketOption.ROUTING_ID:
                _require(0 < len(value) <= 255)
                self.routing_id = value
        else:
            _require(option not in _BOOLEAN or value in (0, 1))
            _require(value >= _MINIMUM.get(SocketOption(option), value))
        self._values[option] = value
        if option == SocketOption.RCVTIMEO:
            self.rcvtimeo = _seconds(self[option])
        elif option == SocketOption.SNDTIMEO:
            self.sndtimeo = _seconds(self[option])

    def get(self, option: int) -> Value:
        """Read a stored option back."""
        _require(option in SocketOption.__members__.values() and option not in _WRITE_ONLY)
        return self._values.get(option, b"" if option_type(option) is OptType.bytes else 0)


def _require(condition: bool) -> None:
    if not condition:
        raise ZMQError(Errno.EINVAL)


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1000
