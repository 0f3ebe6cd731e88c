"""ClientIOThread: what it does when a connection ends."""

import select

from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def test_an_answer_before_the_end_is_had(serve, connect):
    """An answer counts although the server is gone before the I/O thread reads it."""
    server = serve()
    client = connect(server)
    client.stats()
    io_thread = client._io_thread
    client._batcher._send_now = lambda *_: False  # it is this thread that sends
    sleep, ends = io_thread._doorbell.sleep, []

    def sleep_until_it_is_gone(seconds):
        if io_thread._session.busy and not ends:
            eventually(lambda: server.stats().submitted)
            server.close()
            ends.append(server.wait(HANG))
            ends.extend(select.select([io_thread._connection.descriptors[1]], [], [], HANG)[0])
        sleep(seconds)

    io_thread._doorbell.sleep = sleep_until_it_is_gone
    assert client.submit_later("k").result(HANG).state == "pending"
    assert len(ends) == 2
    assert all(ends)
