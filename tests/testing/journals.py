"""Small journals for the tests of aggregates, reports and wheel tuning."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from purgatory.spark.tables.schema import OPERATIONS, OUTCOMES
from purgatory.trace import Operation, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def make_outcome(
    number: int,
    start: int,
    timeout: int,
    end: int | None = None,
    *,
    kind: str = "",
    outcome: str = "completed",
    key: str | None = "k",
    late: int = 0,
) -> Outcome:
    """Make an outcome that ended at `end`: completed by default; expired if `end` is None."""
    at = start + timeout if end is None else end
    result = "expired" if end is None else outcome
    by_key = key if result == "completed" else None
    deadline = start + timeout
    return Outcome(f"o{number}", kind, result, at, by_key, start, deadline, at - start, late)


def random_outcomes(seed: int, count: int) -> list[Outcome]:
    """Make outcomes of four kinds, one of them rare, with ties and all three outcomes."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        start, timeout = rng.randrange(1000), rng.choice([0, 5, 20, 40])
        end = rng.choice([None, start + rng.randint(0, timeout), start + timeout])
        rows.append(
            make_outcome(
                number,
                start,
                timeout,
                end,
                kind=rng.choice(["a", "a", "b", ""]) if number else "rare",
                outcome=rng.choice(["completed", "completed", "cancelled"]),
                key=rng.choice(["k1", "k2", "k3", None]),
                late=rng.choice([0, 0, 7]),
            )
        )
    return rows


def outcomes_frame(spark: SparkSession, rows: Iterable[Outcome]) -> DataFrame:
    """Return outcomes as a DataFrame."""
    return spark.createDataFrame([tuple(row) for row in rows], OUTCOMES)


def operations_frame(spark: SparkSession, rows: Iterable[Operation]) -> DataFrame:
    """Return operations as a DataFrame."""
    return spark.createDataFrame([(*row[:4], list(row.keys), row.need) for row in rows], OPERATIONS)
