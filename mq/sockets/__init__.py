"""Socket types: how each uses its pipes."""

from mq.constants import SocketType
from mq.sockets.base import SocketBase
from mq.sockets.pair import Pair
from mq.sockets.pipeline import Pull, Push
from mq.sockets.pubsub import Pub, Sub, Xpub, Xsub
from mq.sockets.reqrep import Rep, Req
from mq.sockets.router_dealer import Dealer, Router

#: The class of each type that exists in-process.
TYPES: dict[int, type[SocketBase]] = {
    cls.socket_type: cls
    for cls in (Pair, Pub, Sub, Req, Rep, Dealer, Router, Pull, Push, Xpub, Xsub)
}

__all__ = ["TYPES", "SocketBase", "SocketType"]
