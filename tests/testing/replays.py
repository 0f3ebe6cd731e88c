"""A replay of a few rows, and operations for it."""

from purgatory.replay.engine import Replay
from purgatory.trace import Operation


def operation(op_id="o", submitted_ms=0, timeout_ms=10, keys=("k",), need=1, kind=""):
    """Make an operation of the values that a test is about."""
    return Operation(op_id, kind, submitted_ms, timeout_ms, keys, need)


def replayed(operations, events, extensions=None, **options):
    """The outcomes of a replay, in the order of the operations."""
    outcomes = []
    with Replay(on_outcome=outcomes.append, **options) as replay:
        replay.run(operations, events, extensions=extensions)
        replay._purgatory._check()
        assert replay.pending == 0
    order = {operation.op_id: place for place, operation in enumerate(operations)}
    return sorted(outcomes, key=lambda outcome: order[outcome.op_id])
