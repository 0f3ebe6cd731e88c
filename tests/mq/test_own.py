"""The own tree: everything announced arrives, and everything ends once."""

from hypothesis import given
from hypothesis import strategies as st

from mq import Mailbox, Own


class Node(Own):
    """An object that remembers when it was destroyed."""

    def __init__(self, mailbox, log):
        super().__init__(mailbox)
        self.log = log

    def process_destroy(self):
        self.log.append(self)


@given(st.integers(1, 12), st.data())
def test_a_tree_ends_from_its_leaves(size, data):
    """In any order of delivery each node is destroyed once, after all it owns."""
    log = []
    boxes = [Mailbox() for _ in range(3)]
    nodes = [Node(data.draw(st.sampled_from(boxes)), log) for _ in range(size)]
    owners = {}
    for number, node in enumerate(nodes[1:], start=1):
        owner = nodes[data.draw(st.integers(0, number - 1))]
        owner.launch_child(node)
        owners[node] = owner
    nodes[data.draw(st.integers(0, size - 1))].terminate()  # a child may ask first
    ended = False
    while True:
        ready = [box for box in boxes if box.depth]
        if not ready and ended:
            break
        if not ended and (not ready or data.draw(st.booleans())):
            nodes[0].terminate()
            ended = True
        elif ready:
            data.draw(st.sampled_from(ready)).recv(0).execute()
    for box in boxes:
        box.close()
    assert len(log) == len(set(log)) == size
    for child, owner in owners.items():
        assert log.index(child) < log.index(owner)


def test_an_announced_command_is_waited_for():
    """An object whose sequence number was raised stays until the command has come."""
    box, log = Mailbox(), []
    node = Node(box, log)
    node.inc_seqnum()
    node.terminate()
    assert not log
    node.process_seqnum()
    assert log == [node]
    box.close()
