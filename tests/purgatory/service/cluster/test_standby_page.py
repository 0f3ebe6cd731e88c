"""StandbyPage: what the page shows of a server that stands by."""

import json

from purgatory.service.cluster.cluster_status import ClusterStatus, Role
from purgatory.service.cluster.standby_page import StandbyPage


def test_the_state():
    """It can be sent as JSON, and says where the active server is."""
    status = ClusterStatus(role=Role.STANDBY, address="tcp://b:7411", active="tcp://a:7411")
    page = StandbyPage(lambda: status)
    state = json.loads(json.dumps(page.read()))
    assert state["cluster"]["active"] == "tcp://a:7411"
    assert state["health"]["not_ready"] == "standby of tcp://a:7411"
    assert (state["service"], state["pending"], state["address"]) == (None, 0, "tcp://b:7411")
    assert page.sample()[1:] == (0,) * 7
    assert 0 <= page.sample()[0] <= page.uptime_s
