"""The batch: outcomes equal to the oracle's and to a replay's, row by row."""

import random

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from purgatory.spark.batch.job import resolve_files
from purgatory.spark.batch.resolve import resolve
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from purgatory.trace import (
    COMPLETED,
    EXPIRED,
    FAILED,
    Extension,
    KeyEvent,
    Operation,
    Outcome,
    write_events,
    write_operations,
)
from tests.testing.traces import expected, joined, random_traces, same_outcomes

SEQUENCED = StructType([*EVENTS, StructField("seq", LongType())])


def frames(spark, trace):
    """Return both tables of a trace as DataFrames, with `seq` for the events."""
    operations, events = trace
    numbered = [(*event, place) for place, event in enumerate(events)]
    return spark.createDataFrame(operations, OPERATIONS), spark.createDataFrame(numbered, SEQUENCED)


def outcomes(frame):
    """Return the rows of a DataFrame of outcomes, sorted."""
    return sorted((Outcome(*row) for row in frame.collect()), key=repr)


def op(name, keys, *, need=1, submitted_ms=100, timeout_ms=50):
    """Make an operation with keys of its own, which begin with its name."""
    keys = tuple(f"{name}.{key}" for key in keys)
    return Operation(name, "kind", submitted_ms, timeout_ms, keys, need)


CASES = {
    # name: operation, events (key, time, hold, failed), outcome, at, by key
    "at submission": (op("at submission", "a"), [("a", 100)], COMPLETED, 100, "a"),
    "at the deadline": (op("at the deadline", "a"), [("a", 150)], COMPLETED, 150, "a"),
    "just before": (op("just before", "a"), [("a", 99)], EXPIRED, 150, None),
    "just after": (op("just after", "a"), [("a", 151)], EXPIRED, 150, None),
    "no event": (op("no event", "ab"), [], EXPIRED, 150, None),
    "the first of two": (
        op("the first of two", "ab"),
        [("b", 120), ("a", 130)],
        COMPLETED,
        120,
        "b",
    ),
    "before and within": (
        op("before and within", "a"),
        [("a", 9), ("a", 140)],
        COMPLETED,
        140,
        "a",
    ),
    "twice the same": (op("twice the same", "a"), [("a", 110), ("a", 110)], COMPLETED, 110, "a"),
    "both of two": (op("both of two", "ab", need=2), [("a", 110), ("b", 140)], COMPLETED, 140, "b"),
    "held until then": (op("held until then", "a"), [("a", 90, 10)], COMPLETED, 100, "a"),
    "not held so long": (op("not held so long", "a"), [("a", 90, 9)], EXPIRED, 150, None),
    "failed": (op("failed", "a"), [("a", 120, 0, True)], FAILED, 120, None),
    "failed before": (op("failed before", "a"), [("a", 99, 0, True)], EXPIRED, 150, None),
    "one key twice is one": (
        op("one key twice is one", "ab", need=2),
        [("a", 110), ("a", 120)],
        EXPIRED,
        150,
        None,
    ),
    "one too late": (op("one too late", "ab", need=2), [("a", 1), ("b", 120)], EXPIRED, 150, None),
    "no time at all": (op("no time at all", "a", timeout_ms=0), [("a", 100)], COMPLETED, 100, "a"),
    "a key named twice": (
        op("a key named twice", "aab", need=2),
        [("a", 110), ("b", 111)],
        COMPLETED,
        111,
        "b",
    ),
    "before 1970": (
        op("before 1970", "a", submitted_ms=-500),
        [("a", -600), ("a", -450)],
        COMPLETED,
        -450,
        "a",
    ),
    "a tie goes by order": (
        op("a tie goes by order", "ab"),
        [("b", 110), ("a", 110)],
        COMPLETED,
        110,
        "b",
    ),
}


def test_each_case(spark):
    """Each case has its expected outcome; one job resolves all of them."""
    trace = (
        [case[0] for case in CASES.values()],
        [KeyEvent(f"{name}.{key}", *at) for name, case in CASES.items() for key, *at in case[1]],
    )
    got = {
        row.op_id: (row.outcome, row.at_ms, row.by_key)
        for row in outcomes(resolve(*frames(spark, trace)))
    }
    wanted = {
        name: (outcome, at, key and f"{name}.{key}")
        for name, (_, _, outcome, at, key) in CASES.items()
    }
    assert wanted == got


EXTENDED_CASES = {
    # name: extensions (time, timeout), time of the event, outcome, at, deadline; at first 150
    "in time": ([(120, 80)], 180, COMPLETED, 180, 200),
    "too late": ([(151, 80)], 180, EXPIRED, 150, 150),
    "at the deadline": ([(150, 50)], 180, COMPLETED, 180, 200),
    "before the submission": ([(99, 500)], 180, EXPIRED, 150, 150),
    "shorter": ([(110, 10)], 130, EXPIRED, 120, 120),
    "two": ([(140, 60), (190, 60)], 240, COMPLETED, 240, 250),
    "the longest of one instant": ([(120, 90), (120, 60)], 205, COMPLETED, 205, 210),
    "after the end": ([(120, 80), (190, 60)], 180, COMPLETED, 180, 200),
}


def test_each_case_of_extensions(spark):
    """What counts is the deadline that is in force when an operation ends."""
    trace = (
        [op(name, "a") for name in EXTENDED_CASES],
        [KeyEvent(f"{name}.a", case[1]) for name, case in EXTENDED_CASES.items()],
    )
    extensions = [
        Extension(name, *values) for name, case in EXTENDED_CASES.items() for values in case[0]
    ]
    table = spark.createDataFrame(extensions, EXTENSIONS)
    got = {
        row.op_id: (row.outcome, row.at_ms, row.deadline_ms)
        for row in outcomes(resolve(*frames(spark, trace), table))
    }
    assert got == {name: case[2:] for name, case in EXTENDED_CASES.items()}


def test_many_keys_and_needs_on_a_hot_key(spark):
    """A key with a tenth of all events, which half of the operations watch, resolves right."""
    rng = random.Random(7)
    events = [
        KeyEvent("hot" if rng.random() < 0.1 else f"k{rng.randrange(500)}", rng.randrange(20_000))
        for _ in range(20_000)
    ]
    operations = []
    for number in range(2_000):
        keys = tuple(f"k{rng.randrange(500)}" for _ in range(rng.randint(1, 4)))
        keys += ("hot",) * rng.randint(0, 1)
        need = rng.randint(1, len(set(keys)))
        operations.append(
            Operation(f"o{number}", "", rng.randrange(20_000), rng.randrange(3_000), keys, need)
        )
    trace = (operations, events)
    assert expected(trace) == outcomes(resolve(*frames(spark, trace)))


def test_rows_are_never_paired(spark, capsys):
    """The plan has no join, which would explode on a hot key."""
    resolve(*frames(spark, ([op("o", "a")], [KeyEvent("o.a", 1)]))).explain()
    plan = capsys.readouterr().out
    assert "Window" in plan
    assert "Join" not in plan


def test_each_row_of_an_operation_has_an_outcome(spark):
    """Rows with the same op_id are operations of their own, even if they are equal."""
    twice = [op("o", "a"), op("o", "a"), op("o", "ab", need=2), op("o", "b")]
    trace = (twice, [KeyEvent("o.a", 120)])
    got = outcomes(resolve(*frames(spark, trace)))
    assert expected(trace) == got
    assert sorted(row.outcome for row in got) == [COMPLETED, COMPLETED, EXPIRED, EXPIRED]


def test_without_an_order_a_tie_goes_by_key(spark):
    """Events of one instant, in a DataFrame without `seq`, count in the order of their keys."""
    operations = spark.createDataFrame([op("o", "abc", need=2)], OPERATIONS)
    events = spark.createDataFrame([KeyEvent(f"o.{key}", 110) for key in "cba"], EVENTS)
    (row,) = outcomes(resolve(operations, events))
    assert (row.by_key, row.at_ms) == ("o.b", 110)


def test_empty_tables_give_an_empty_table(spark):
    """Without operations the result has the columns of outcomes, and no rows."""
    frame = resolve(*frames(spark, ([], [])))
    assert [(f.name, f.dataType) for f in OUTCOMES] == [(f.name, f.dataType) for f in frame.schema]
    assert frame.collect() == []


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl.gz"])
def test_from_files_as_from_the_oracle(spark, tmp_path, suffix):
    """In directories of several files, ties go by the order of file names and rows."""
    operations, events = trace = joined(random_traces(60))
    for name, rows, write in (
        ("operations", operations, write_operations),
        ("events", events, write_events),
    ):
        (tmp_path / name).mkdir()
        # Names in another order than sizes: Spark reads large files first.
        for number, part in enumerate((rows[:10], rows[10:15], rows[15:])):
            with write(tmp_path / name / f"{number} of 3{suffix}") as out:
                for row in part:
                    out.write(row)
    done = resolve_files(spark, f"{tmp_path}/operations", f"{tmp_path}/events", f"{tmp_path}/out")
    got = outcomes(spark.read.parquet(f"{tmp_path}/out"))
    assert expected(trace) == got
    assert (len(got), 0) == (done.operations, done.rejected)


def test_the_flights_as_in_a_replay(spark, flights, flights_outcomes, tmp_path):
    """For a year of flights every column of every row equals a replay's."""
    done = resolve_files(
        spark, f"{flights}/operations.parquet", f"{flights}/events.parquet", f"{tmp_path}/out"
    )
    assert done == (249_716, 78_805, 0, 0)
    assert same_outcomes(flights_outcomes, tmp_path / "out")
