"""ServerConnection: what a client makes of frames that are no messages."""

from threading import Thread

from purgatory.service import Client
from purgatory.service.protocol import StatsReply
from tests.testing.purgatory_harness import HANG


def test_a_frame_that_is_no_message(fake, caplog):
    """It is logged, and the client goes on: answers after it are had."""
    with Client(fake.address, timeout=HANG) as client:
        results = []
        thread = Thread(target=lambda: results.append(client.stats()))
        thread.start()
        seq = fake.receive().seq
        fake.router.send_multipart([fake.route, b"\xff"])
        fake.send(StatsReply(seq, {"x": 1}))
        thread.join(HANG)
        assert results == [{"x": 1}]
    assert "no message of protocol 2" in caplog.text
