"""ClusterStatus: why a server takes no requests."""

import pytest

from purgatory.service.cluster.cluster_status import ClusterStatus, Role, standby_message
from purgatory.service.errors import Standby


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"role": Role.STANDBY, "active": "tcp://a:7411"}, "standby of tcp://a:7411"),
        ({"role": Role.STANDBY}, "standby: no server is active"),
        ({"role": Role.LOADING}, "loading"),
        ({"role": Role.CLOSING}, "closing"),
        ({"role": Role.ACTIVE}, ""),
        ({"role": Role.ACTIVE, "overdue_s": 7.2}, "the lease ended 7 s ago"),
    ],
)
def test_the_trouble_of_each_role(changes, trouble):
    """It is what `/readyz` says; an active server with a lease has none."""
    found = ClusterStatus(address="tcp://b:7411", **changes).trouble
    assert found.startswith(trouble)
    assert bool(found) == bool(trouble)


def test_a_client_can_read_what_a_standby_answers():
    """The address comes out of the message again."""
    assert Standby(standby_message("tcp://a:7411")).address == "tcp://a:7411"
    assert Standby(standby_message("")).address == ""
