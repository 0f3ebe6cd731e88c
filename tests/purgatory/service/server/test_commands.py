"""What the threads of a server tell each other."""

from purgatory.service.protocol import Stats
from purgatory.service.server.commands import ClientRequest


def test_owner():
    """Only a sender that is limited to its own name is an owner."""
    request = Stats(1)
    assert ClientRequest(b"r", "c", request, 1).owner is None
    assert ClientRequest(b"r", "c", request, 1, own_only=True).owner == "c"
