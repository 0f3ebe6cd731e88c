"""The kinds of sockets, and what they have in common."""

from mq.constants import SocketType
from mq.sockets.base import SocketBase
from mq.sockets.pair import Pair
from mq.sockets.pipeline import Pull, Push
from mq.sockets.pubsub import Pub, Sub, XPub, XSub
from mq.sockets.reqrep import Rep, Req
from mq.sockets.router_dealer import Dealer, Router

KINDS: dict[int, type[SocketBase]] = {
    SocketType.PAIR: Pair,
    SocketType.PUB: Pub,
    SocketType.SUB: Sub,
    SocketType.REQ: Req,
    SocketType.REP: Rep,
    SocketType.DEALER: Dealer,
    SocketType.ROUTER: Router,
    SocketType.PULL: Pull,
    SocketType.PUSH: Push,
    SocketType.XPUB: XPub,
    SocketType.XSUB: XSub,
}
