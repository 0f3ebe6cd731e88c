"""What is told of the ends of operations, in frames that are bounded."""

from purgatory.service.protocol import Complete, Completion
from purgatory.service.server.state import PORTION
from tests.testing.step_server import StepServer, operation


def test_much_that_ends_at_once_is_fetched(tmp_path):
    """The frames that are pushed are bounded; the last push says where to go on."""
    server = StepServer(tmp_path / "a.db", payload_bytes=1 << 16)
    server.hello()
    for n in range(PORTION):
        server.submit(operation(f"o{n}", "k", payload="x" * 60_000))
    server.post(Complete, [Completion("k")])
    told = server.step()[1]
    assert 20 < len(told) < PORTION - 4
    last = [push for command in server.sent for push in getattr(command, "pushes", ())][-1]
    assert (last.frame, last.first, last.last) == (None, len(told) + 1, PORTION)
    assert server.fetch_outcomes(after=last.first - 1)[0].number == last.first
    server.store.close()
