"""Many small traces joined into a large one, so that one Spark job resolves all of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from purgatory.trace import KeyEvent, Operation, Outcome
from tests.testing import oracle
from tests.testing.oracle import FullTrace

Trace = tuple[list[Operation], list[KeyEvent]]
_DrawnT = TypeVar("_DrawnT")


def random_traces(count: int, *, in_order: bool = True, start_ms: int = 0) -> list[Trace]:
    """Draw so many different traces from `oracle.traces`, new ones at each call."""
    return _drawn(count, oracle.traces(in_order=in_order, start_ms=start_ms))


def random_full_traces(count: int, *, in_order: bool = True) -> list[FullTrace]:
    """Draw so many different traces from `oracle.full_traces`, new ones at each call."""
    return _drawn(count, oracle.full_traces(in_order=in_order))


def _drawn(count: int, traces: st.SearchStrategy[_DrawnT]) -> list[_DrawnT]:
    drawn: list[_DrawnT] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(traces)
    def draw(trace: _DrawnT) -> None:
        drawn.append(trace)

    draw()
    return drawn


def joined(traces: Iterable[Trace]) -> Trace:
    """Join traces into one: ids and keys begin with the number of their trace.

    The events keep their order within each trace. If the events of all traces are ordered by time,
    so are those of the result.
    """
    operations: list[Operation] = []
    events: list[KeyEvent] = []
    for number, (some_operations, some_events) in enumerate(traces):
        for row in some_operations:
            keys = tuple(f"{number}:{key}" for key in row.keys)
            operations.append(row._replace(op_id=f"{number}:{row.op_id}", keys=keys))
        events.extend(row._replace(key=f"{number}:{row.key}") for row in some_events)
    # The sort is stable: events of one trace and instant keep their order.
    in_order = all(_is_sorted([e.at_ms for e in events]) for _, events in traces)
    if in_order:
        operations.sort(key=lambda row: row.submitted_ms)
        events.sort(key=lambda row: row.at_ms)
    return operations, events


def joined_full(traces: list[FullTrace]) -> FullTrace:
    """Join traces with all their tables, as `joined` does; extensions keep their order, too."""
    operations, events = joined([trace[:2] for trace in traces])
    extensions = [
        row._replace(op_id=f"{number}:{row.op_id}")
        for number, trace in enumerate(traces)
        for row in trace.extensions
    ]
    if all(_is_sorted([e.at_ms for e in trace.extensions]) for trace in traces):
        extensions.sort(key=lambda row: row.at_ms)
    return FullTrace(operations, events, extensions)


def expected(trace: Trace | FullTrace) -> list[Outcome]:
    """Return the oracle's outcomes of a trace, sorted."""
    return sorted(oracle.resolve(*trace), key=repr)


def same_outcomes(one: Path, other: Path) -> bool:
    """Tell whether two tables on disk, with distinct ids, have the same columns and rows."""
    tables = [pq.read_table(path).sort_by("op_id") for path in (one, other)]
    return tables[0].equals(tables[1].cast(tables[0].schema))


def _is_sorted(times: list[int]) -> bool:
    return times == sorted(times)
