"""Topics and their subscribers, against a plain list."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mq.pipes.subscriptions import Subscriptions


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=3), st.integers(0, 2))), st.binary())
def test_subscriptions_against_a_plain_list(changes, data):
    """Holders of prefixes, as a list of all subscriptions would have them."""
    table, model = Subscriptions(), []
    for add, topic, holder in changes:
        if add:
            assert table.add(topic, holder) == (topic not in [t for t, _ in model])
            model.append((topic, holder))
        elif (topic, holder) in model:
            model.remove((topic, holder))
            assert table.remove(topic, holder) == (topic not in [t for t, _ in model])
        else:
            assert not table.remove(topic, holder)
    assert table._lengths == Counter(len(topic) for topic in {t for t, _ in model})
    expected = {holder for topic, holder in model if data.startswith(topic)}
    assert set(table.matching_subscribers(data)) == expected
    assert table.matches(data) == bool(expected)
    gone = [topic for topic in table.topics_of(0) if table.remove(topic, 0, completely=True)]
    assert set(gone) == {t for t, _ in model} - {t for t, h in model if h != 0}
