"""A connection that breaks, and what each side notices."""

import pytest
import zmq

from tests.testing.simulated_sockets import events, read


@pytest.mark.parametrize("half_open", [False, True])
def test_a_broken_connection(world, network, dealer, router, half_open):
    """What is on its way is lost; both sides notice, one of them maybe late."""
    dealer.send(b"lost", 0)
    [connection] = network.of_host("client")
    network.break_off(connection, half_open=half_open)
    world.run(30)
    assert events(dealer) == [zmq.EVENT_DISCONNECTED]
    assert read(router) == []
    assert network.of_host("client") == []
