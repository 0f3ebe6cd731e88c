"""One shard, without Spark: the oracle's outcomes, and a state that is empty in the end.

`FULL_TRACES=200` compares as many random traces; the default takes seconds.
"""

import os
import random

import pytest

from purgatory.spark.stream import bucket_table
from purgatory.spark.stream.shard import EVENT, EXTENSION, OPERATION, Shard, compute_closed_ms
from purgatory.spark.stream.shard_state import BUCKET_MAPS, MAPS, ShardState
from purgatory.trace.validation import INT64_MIN
from tests.testing.memory_store import MemoryStore
from tests.testing.traces import expected, joined_full, random_full_traces

COUNT = int(os.environ.get("FULL_TRACES", "40"))


def rows_of(trace):
    """Return the rows of a trace as a shard takes them."""
    return [
        *(
            [o.submitted_ms, OPERATION, "f", n, o.op_id, o.kind, o.timeout_ms, list(o.keys), o.need]
            for n, o in enumerate(trace.operations)
        ),
        *(
            [e.at_ms, EXTENSION, "f", n, e.op_id, e.timeout_ms]
            for n, e in enumerate(trace.extensions)
        ),
        *([e.at_ms, EVENT, "f", n, e.key, e.hold_ms, e.failed] for n, e in enumerate(trace.events)),
    ]


def run(trace, rng, *, jitter_ms, batches):
    """Run a trace in micro-batches, out of order by less than `jitter_ms`."""
    stores = {name: MemoryStore() for name in MAPS}
    rows = sorted(rows_of(trace), key=lambda row: row[0] + rng.randint(0, jitter_ms))
    size = max(1, -(-len(rows) // batches))
    found, newest_ms = [], INT64_MIN
    for number in range(batches + 1):
        state = ShardState(stores, extensible=True)
        shard = Shard(state)
        part = rows[number * size : (number + 1) * size]
        shard.take(part)
        assert not shard.late
        newest_ms = max([newest_ms, *(row[0] for row in part)])
        at_end = number == batches
        shard.advance(2**40 if at_end else max(state.closed_ms, newest_ms - jitter_ms - 1))
        state.flush()
        found += shard.outcomes
        taken = sum(row[1] == OPERATION for row in rows[: (number + 1) * size])
        assert state.pending + state.waiting_operations == taken - len(found)
    assert not any(rows for name, rows in stores.items() if name != "facts")
    assert not any(getattr(state, name).entries for name in BUCKET_MAPS)
    return sorted(found, key=repr)


@pytest.mark.parametrize("target", [2, 128])
def test_random_traces(monkeypatch, target):
    """Ties, need=n, extensions, held and failed events, rows out of order, buckets that split."""
    monkeypatch.setattr(bucket_table, "TARGET", target)
    monkeypatch.setattr(bucket_table, "_SMALL", 1)
    rng = random.Random()
    traces = random_full_traces(COUNT, in_order=False)
    for trace in traces:
        jitter_ms, batches = rng.choice([0, 5, 50]), rng.randint(1, 8)
        wanted = expected(trace)
        assert run(trace, rng, jitter_ms=jitter_ms, batches=batches) == wanted
    whole = joined_full(traces)
    assert run(whole, rng, jitter_ms=5, batches=20) == expected(whole)


def micro_batches(*batches):
    """Take and close the instants of each micro-batch; return the outcomes, and the last state."""
    stores = {name: MemoryStore() for name in MAPS}
    outcomes = []
    for rows in batches:
        state = ShardState(stores, extensible=True)
        shard = Shard(state)
        shard.take(rows)
        shard.advance(max(row[0] for row in rows))
        state.flush()
        outcomes += shard.outcomes
    return outcomes, state


def test_an_extension_lasts_into_the_next_micro_batch():
    """The operation is written again, although no other fact of it has changed."""
    operation = [0, OPERATION, "f", 0, "o", "", 10, ["k"], 1]
    extension = [5, EXTENSION, "f", 0, "o", 20]
    outcomes, _ = micro_batches([operation], [extension], [[20, EVENT, "f", 0, "k", 0, False]])
    assert [(o.outcome, o.at_ms, o.deadline_ms) for o in outcomes] == [("completed", 20, 25)]


def test_an_extended_operation_expires_at_its_new_deadline():
    """Not at the old deadline, and without a further row for it."""
    operation = [0, OPERATION, "f", 0, "o", "", 10, ["k"], 1]
    extension = [5, EXTENSION, "f", 0, "o", 20]
    before, after = ([[at_ms, EVENT, "f", 0, "other", 0, False]] for at_ms in (24, 25))
    assert micro_batches([operation], [extension], before)[0] == []
    outcomes, _ = micro_batches([operation], [extension], before, after)
    assert [(o.outcome, o.at_ms, o.deadline_ms) for o in outcomes] == [("expired", 25, 25)]


def test_what_ends_with_the_last_closed_instant_has_ended():
    """In that micro-batch, whether it came with it or before."""
    operation = [0, OPERATION, "f", 0, "o", "", 10, ["k"], 1]
    rows = [operation, [0, EVENT, "f", 0, "held", 10, False], [10, EVENT, "f", 1, "x", 0, False]]
    for batches in ([rows], [rows[:2], rows[2:]]):
        outcomes, state = micro_batches(*batches)
        assert [(o.outcome, o.at_ms) for o in outcomes] == [("expired", 10)]
        assert state.holds.entries == state.watchers.entries == 0


def test_rows_of_closed_instants_are_late():
    """The last closed instant is one of these, also for the next micro-batch."""
    rows = [[at_ms, EVENT, "f", 0, "k", 0, False] for at_ms in (9, 10, 11)]
    shard = Shard(micro_batches(rows[:2])[1])
    shard.take(rows)
    assert (shard.late, shard.taken) == (rows[:2], rows[2:])


def test_a_completion_that_is_not_held_replaces_a_hold():
    """The hold leaves the state, and its count: the number of buckets follows the count."""
    held, plain = [1, EVENT, "f", 0, "k", 99, False], [2, EVENT, "f", 1, "k", 0, False]
    assert micro_batches([held])[1].holds.entries == 1
    assert micro_batches([held], [plain])[1].holds.entries == 0


def test_a_completion_that_is_not_held_takes_no_place():
    """Though other keys have holds: no bucket is written for it."""
    _, state = micro_batches([[1, EVENT, "f", 0, "held", 99, False]])
    shard = Shard(state)
    shard.take([[2, EVENT, "f", 1, "k", 0, False]])
    shard.advance(2)
    assert shard._held == set()
    assert state.holds.entries == 1


def test_a_small_batch_writes_what_it_changes():
    """With many pending operations, a batch of few rows reads and writes few buckets."""
    stores = {name: MemoryStore() for name in MAPS}

    def batch(rows, closed_ms):
        state = ShardState(stores, extensible=False)
        shard = Shard(state)
        shard.take(rows)
        shard.advance(closed_ms)
        state.flush()
        return len(shard.outcomes), sum(store.writes for store in stores.values())

    count = 20_000
    _, before = batch(
        [[0, OPERATION, "f", n, f"o{n}", "", n, [f"k{n}"], 1] for n in range(count)], 0
    )
    ended, after = batch([[1, EVENT, "f", n, f"k{n + 2}", 0, False] for n in range(10)], 1)
    assert len(stores["watchers"]) >= count // bucket_table.TARGET
    assert (ended, before > 150) == (11, True)
    assert after - before <= 15


@pytest.mark.parametrize(
    ("newest_ms", "closed_ms"),
    [
        ({}, 3),
        ({"a": 50}, 3),
        ({"a": 50, "b": 40}, 29),
        ({"a": 50, "b": 11}, 3),
        ({"a": INT64_MIN, "b": 0}, 3),
    ],
)
def test_time_is_closed_up_to_what_all_sources_have_reached(newest_ms, closed_ms):
    """Less the watermark and a millisecond, and never back."""
    assert compute_closed_ms(newest_ms, ("a", "b"), 10, 3) == closed_ms
