"""What a worker's session tells and hears of leases."""

from purgatory.service.client.worker_link import WorkerLink
from purgatory.service.encoding import decode_request
from purgatory.service.job_messages import Begin, CancelLeases
from purgatory.service.protocol import VERSION, Lease, Work
from tests.purgatory.service.client.test_session import Talk


class TestWorker:
    """What a worker's session tells and hears of leases."""

    def connect(self, version=VERSION):
        """Return a conversation of a worker, and what the worker hears."""
        talk, heard = Talk(items=3), []
        asks = {"": 1}, 8, 1000, False, {}, True
        talk.session.worker = WorkerLink(asks, heard.extend, lambda: None, heard.append)
        [work] = talk.connect(version)
        assert isinstance(work, Work)
        assert work.begins
        return talk, heard

    def sent(self, talk):
        return [decode_request(frame) for frame in talk.session.take_messages()]

    def test_handlers_that_have_begun(self):
        """They are told once, in messages of as many as the server takes; there is no answer."""
        talk, _ = self.connect()
        talk.session.begun.extend([Lease(n, 10 * n) for n in range(4)])
        first, second = self.sent(talk)
        assert isinstance(first, Begin)
        assert [lease.token for lease in first.leases + second.leases] == [0, 10, 20, 30]
        assert self.sent(talk) == []
        assert not talk.session.busy

    def test_an_older_server(self):
        """It is not told: an attempt begins with its lease there."""
        talk, _ = self.connect(version=2)
        talk.session.begun.append(Lease(1, 1))
        assert self.sent(talk) == []
        assert talk.session.max_result_bytes is None

    def test_another_connection(self):
        """Leases of the one before have ended: nothing is told of them."""
        talk, _ = self.connect()
        assert talk.session.max_result_bytes == talk.limits.payload_bytes
        talk.session.on_disconnected(lost=True)
        assert talk.session.max_result_bytes is None
        talk.session.begun.append(Lease(1, 1))
        assert self.sent(talk) == []
        talk.connect()
        assert self.sent(talk) == []

    def test_jobs_that_were_cancelled(self):
        """The worker hears of their leases; a client that is none does not mind."""
        talk, heard = self.connect()
        message = CancelLeases([Lease(1, 10)])
        assert talk.session.has_callbacks(message)
        assert talk.session.handle(message) == []
        assert heard == [message]
        assert Talk().session.handle(message) == []
