"""Classes of programs that inherit ours, which may be compiled."""

import mq


def test_queue_layers_can_be_subclassed():
    """A program's queue, pipe, mailbox and signaler add to what ours do."""

    class Queue(mq.YQueue):
        def push(self, value):
            super().push((value, "pushed"))

    class Pipe(mq.YPipe):
        def flush(self):
            self.flushed = True
            return super().flush()

    class Mailbox(mq.Mailbox):
        def send(self, command):
            super().send(("sent", command))

    class Signaler(mq.Signaler):
        name = "mine"

    queue, pipe, mailbox, signaler = Queue(2), Pipe(2), Mailbox(), Signaler()
    queue.push(1)
    assert queue.pop() == (1, "pushed")
    pipe.write(1)
    assert pipe.flush()
    assert (pipe.read(), pipe.flushed) == (1, True)
    mailbox.send(1)
    assert mailbox.recv(0) == ("sent", 1)
    signaler.send()
    assert signaler.recv()
    mailbox.close()
    signaler.close()
