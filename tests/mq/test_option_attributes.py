"""Options as attributes of sockets and contexts."""

import sys

import pytest

import mq
import mq as zmq


def test_attributes(socket):
    """Options are attributes in any case; there are no others; write-only ones cannot be read."""
    dealer = socket(zmq.DEALER)
    dealer.linger = 10
    assert dealer.LINGER == dealer.get(zmq.LINGER) == 10
    dealer.hwm = 5
    assert (dealer.sndhwm, dealer.rcvhwm, dealer.get_hwm()) == (5, 5, 5)
    for access in (lambda: dealer.apple, lambda: setattr(dealer, "apple", 1)):
        with pytest.raises(AttributeError):
            access()
    with pytest.raises(AttributeError, match="write-only"):
        _ = dealer.req_relaxed


@pytest.mark.parametrize(
    "annotation",
    [
        "str",
        "'NameForTypeCheckers'",
        pytest.param(
            "NameForTypeCheckers",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 14), reason="annotations are evaluated with their class"
            ),
        ),
    ],
)
def test_a_subclass_may_set_what_it_annotates(annotation):
    """What a class annotates is its own, no option, though the annotation cannot be evaluated."""
    namespace = {"mq": mq}
    exec(f"class Labelled(mq.Context):\n    label: {annotation}", namespace)
    with namespace["Labelled"]() as context:
        context.label = "mine"
        assert context.label == "mine"
        with pytest.raises(AttributeError, match="no such option"):
            context.other = "not annotated"
