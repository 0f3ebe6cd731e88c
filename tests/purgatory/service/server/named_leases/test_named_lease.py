"""A name that is leased, with its waiters."""

from purgatory.service.server.named_leases.named_lease import LeaseHolder, NamedLease, Waiter


def test_who_is_next():
    """The first of those that have a connection."""
    lease = NamedLease("n")
    assert lease.is_empty
    assert lease.first_present() is None
    lease.waiters = {"a": Waiter(b"", 5), "b": Waiter(b"r", 3), "c": Waiter(b"r", 9)}
    assert lease.first_present() == "b"
    assert not lease.is_empty


def test_what_ends_first():
    """The lease, or a wait."""
    lease = NamedLease("n")
    assert lease.earliest_ms() == 0
    lease.held = LeaseHolder("x", 1, 7)
    assert lease.earliest_ms() == 7
    lease.waiters["b"] = Waiter(b"r", 3)
    assert lease.earliest_ms() == 3
