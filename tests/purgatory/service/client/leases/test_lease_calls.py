"""The calls about named leases: what they send, and who hears that a turn has come."""

from purgatory.service.client.leases.lease_calls import LeaseCalls
from purgatory.service.job_messages import EndLease, KeepLease, LeaseReady, TakeLease
from purgatory.service.platform import REAL_PLATFORM


def test_what_is_sent():
    """The fields of each request, in order."""
    sent = []
    calls = LeaseCalls(lambda request, fields: sent.append((request, fields)), REAL_PLATFORM, "c")
    calls.take("n", "h", 30_000, 500)
    calls.keep("n", "h", 30_000)
    calls.end("n", "h")
    assert sent == [
        (TakeLease, ("n", "h", 30_000, 500)),
        (KeepLease, ("n", "h", 30_000)),
        (EndLease, ("n", "h")),
    ]
    assert [request(1, *fields).name for request, fields in sent] == ["n"] * 3
    assert calls.new_holder() != calls.new_holder()


def test_a_turn_that_has_come():
    """Only the waiter of that name and holder hears of it, while it waits."""
    calls = LeaseCalls(lambda *_: None, REAL_PLATFORM, "c")
    heard = []
    calls.expect("n", "h", lambda: heard.append("h"))
    calls.on_ready(LeaseReady("n", "other"))
    calls.on_ready(LeaseReady("other", "h"))
    assert heard == []
    calls.on_ready(LeaseReady("n", "h"))
    assert heard == ["h"]
    calls.forget("n", "h")
    calls.on_ready(LeaseReady("n", "h"))
    assert heard == ["h"]
