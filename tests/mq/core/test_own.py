"""Objects with an owner: announcements, acknowledgements, late children."""

from mq.core.own import Own
from mq.pipes.commands import Adopt, Command, Term
from mq.queues.mailbox import Mailbox


class Node(Own):
    """An Own that notes its end."""

    def __init__(self, mailbox, log, name):
        super().__init__(mailbox)
        self.log = log
        self.name = name

    def process_adopt(self, child):
        self.register_term_acks(1)
        child.mailbox.send(Term(child))
        self.process_announced(child)

    def process_destroy(self):
        self.log.append(self.name)


def hand_over(owner, child):
    """Send a child to its owner, which has to wait for it."""
    child.owner = owner
    owner.announce(child)
    owner.mailbox.send(Adopt(owner, child))


def run(*mailboxes: Mailbox[Command]):
    """Deliver until nothing is left."""
    busy = True
    while busy:
        busy = False
        for mailbox in mailboxes:
            while (command := mailbox.recv(0)) is not None:
                command.deliver()
                busy = True


def make(names):
    """Nodes with a mailbox each, and their common log."""
    log = []
    return [Node(Mailbox(), log, name) for name in names], log


def test_children_end_before_their_owner():
    """A root ends last, after each below it has acknowledged."""
    (root, child, grandchild), log = make(["root", "child", "grandchild"])
    boxes = [node.mailbox for node in (root, child, grandchild)]
    hand_over(root, child)
    hand_over(child, grandchild)
    root.process_term()
    assert log == []
    run(*boxes)
    assert log == ["grandchild", "child", "root"]


def test_a_child_that_arrives_late_is_ended_at_once():
    """An own that arrives while its owner terminates gets term, and is waited for."""
    (root, child), log = make(["root", "child"])
    hand_over(root, child)
    root.process_term()
    assert log == []
    run(root.mailbox)
    command = child.mailbox.recv(0)
    assert command == Term(child)
    command.deliver()
    run(root.mailbox)
    assert log == ["child", "root"]


def test_an_announced_command_is_waited_for():
    """What was announced must arrive before the end, once or twice."""
    (root,), log = make(["root"])
    root.announce("it")
    root.process_term()
    assert log == []
    root.process_announced("it")
    root.process_announced("it")
    assert log == ["root"]


def test_acknowledgements_are_waited_for():
    """Registered acks, as those of pipes, hold an object; the last lets it go, once."""
    (root,), log = make(["root"])
    root.register_term_acks(2)
    root.process_term()
    root.process_term_ack()
    assert log == []
    root.process_term_ack()
    assert log == ["root"]
