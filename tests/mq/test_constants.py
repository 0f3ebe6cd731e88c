"""Constants: enumerations, and their members as names of the module."""

import pytest

from mq import constants
from mq.constants import OptType, SocketOption


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("PUSH", constants.SocketType.PUSH),
        ("LINGER", SocketOption.LINGER),
        ("DONTWAIT", constants.Flag.DONTWAIT),
        ("EVENT_DISCONNECTED", constants.Event.DISCONNECTED),
        ("NOTIFY_CONNECT", constants.RouterNotify.CONNECT),
        ("RECONNECT_STOP_CONN_REFUSED", constants.ReconnectStop.CONN_REFUSED),
    ],
)
def test_members_are_names(name, member):
    """Those that would clash have the prefix that ZeroMQ gives them."""
    assert getattr(constants, name) is member
    assert name in constants.__all__


def test_an_option_knows_its_type():
    """The number is the option; what it holds is beside it."""
    assert SocketOption.ROUTING_ID == 5
    assert SocketOption.ROUTING_ID.opt_type is OptType.bytes
    assert SocketOption.LINGER._opt_type is OptType.int
