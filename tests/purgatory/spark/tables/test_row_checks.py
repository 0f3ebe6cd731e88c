"""The check of rows: what a trace allows is good, all else is rejected with its reason."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from purgatory.spark.errors import TableError
from purgatory.spark.tables.row_checks import (
    IS_GOOD,
    check_events,
    check_extensions,
    check_operations,
)
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, REJECTED
from purgatory.trace import Operation, tables
from purgatory.trace.errors import BadValue
from purgatory.trace.validation import FARTHEST_MS, INT64_MAX, INT64_MIN

# As operations, but with room for a need that does not fit.
LOOSE = StructType(
    [
        StructField("op_id", StringType()),
        StructField("kind", StringType()),
        StructField("submitted_ms", LongType()),
        StructField("timeout_ms", LongType()),
        StructField("keys", ArrayType(StringType())),
        StructField("need", LongType()),
    ]
)
GOOD = ("o", "k", 1, 2, ["a", "b"], 2)

BAD_OPERATIONS = {
    # what is changed: reason
    ("op_id", None): "column op_id: nothing, expected non-empty UTF-8 text",
    ("op_id", ""): "column op_id: '', expected non-empty UTF-8 text",
    ("submitted_ms", None): "column submitted_ms: nothing, expected an integer of 64 bits",
    ("timeout_ms", None): "column timeout_ms: nothing, expected an integer of 64 bits, 0 or more",
    ("timeout_ms", -5): "column timeout_ms: '-5', expected an integer of 64 bits, 0 or more",
    ("timeout_ms", INT64_MAX): (
        f"column timeout_ms: '{INT64_MAX}', expected a deadline within 64 bits"
    ),
    ("keys", None): "column keys: nothing, expected a list of at least one key",
    ("keys", ()): "column keys: '[]', expected a list of at least one key",
    ("keys", ("a", None)): (
        "column keys: '[a, null]', expected every key to be non-empty UTF-8 text"
    ),
    ("keys", ("a", "")): "column keys: '[a, ]', expected every key to be non-empty UTF-8 text",
    ("need", 0): ("column need: '0', expected an integer from 1 to 2, the number of distinct keys"),
    ("need", 3): ("column need: '3', expected an integer from 1 to 2, the number of distinct keys"),
    ("need", 2**40): (
        f"column need: '{2**40}', expected an integer from 1 to 2, the number of distinct keys"
    ),
    ("keys", ("a", "a")): (
        "column need: '2', expected an integer from 1 to 1, the number of distinct keys"
    ),
}


def changed(column, value):
    """Return a good row with one bad value."""
    row = dict(zip(LOOSE.names, GOOD, strict=True)) | {column: value}
    return tuple(list(v) if isinstance(v, tuple) else v for v in row.values())


def test_every_broken_rule_of_operations_is_reported(spark):
    """Each bad operation is rejected with its reason and itself; the good one is kept."""
    rows = [GOOD, *(changed(*change) for change in BAD_OPERATIONS)]
    checked = check_operations(spark.createDataFrame(rows, LOOSE))
    rejected = checked.rejected.collect()
    assert [tuple(row) for row in checked.good.collect()] == [GOOD]
    assert list(BAD_OPERATIONS.values()) == [row.reason for row in rejected]
    assert {"operations"} == {row.table for row in rejected}
    assert json.loads(rejected[-1].row) == dict(
        zip(LOOSE.names, changed("keys", ("a", "a")), strict=True)
    )
    assert REJECTED.names == checked.rejected.columns


def test_each_key_is_text_of_its_own(spark):
    """Two keys whose bytes are valid only together are none."""
    keys = "array(cast(x'6BC3' as string), cast(x'A9' as string)) as keys"
    rows = spark.range(1).selectExpr("'o' as op_id", "1L submitted_ms", "2L timeout_ms", keys)
    checked = check_operations(rows)
    assert checked.good.isEmpty()
    (row,) = checked.rejected.select("reason").collect()
    assert row.reason.endswith("expected every key to be non-empty UTF-8 text")


def test_marked_rows_are_all_rows(spark):
    """Good ones as `good` has them, also beside a number that their column cannot hold."""
    rows = [GOOD, *(changed(*change) for change in BAD_OPERATIONS)]
    checked = check_operations(spark.createDataFrame(rows, LOOSE))
    marked = checked.marked.collect()
    assert len(marked) == len(rows)
    assert [tuple(row[:-1]) for row in marked if row[IS_GOOD]] == [GOOD]
    assert checked.marked.drop(IS_GOOD).schema == checked.good.schema


def test_a_long_value_is_shortened(spark):
    """The reason has the beginning of a long value, the row all of it."""
    checked = check_operations(spark.createDataFrame([changed("keys", ("x" * 99, ""))], LOOSE))
    (row,) = checked.rejected.collect()
    assert "..." in row.reason
    assert len(row.reason) < 150
    assert "x" * 99 in row.row


def test_every_broken_rule_of_events_is_reported(spark):
    """Each bad event is rejected with its reason; good ones keep `seq`."""
    schema = StructType([*EVENTS, StructField("seq", ShortType())])
    rows = [
        ("a", 1, 5, True, 7),
        ("a", 1, None, None, 7),
        (None, 1, 0, False, 8),
        ("", 1, 0, False, 8),
        ("a", None, 0, False, 9),
        ("a", 1, -1, False, 9),
        ("a", 1, INT64_MAX, False, 9),
    ]
    checked = check_events(spark.createDataFrame(rows, schema))
    good = [("a", 1, 5, True, 7), ("a", 1, 0, False, 7)]
    assert [tuple(row) for row in checked.good.collect()] == good
    assert [row.reason for row in checked.rejected.collect()] == [
        "column key: nothing, expected non-empty UTF-8 text",
        "column key: '', expected non-empty UTF-8 text",
        "column at_ms: nothing, expected an integer of 64 bits",
        "column hold_ms: '-1', expected an integer of 64 bits, 0 or more",
        f"column hold_ms: '{INT64_MAX}', expected an end of the hold within 64 bits",
    ]


def test_events_keep_only_the_optional_columns_that_they_have(spark):
    """So that resolving plain events takes no more work than before there were others."""
    frame = spark.createDataFrame([("a", 1)], "key string, at_ms int")
    assert check_events(frame).good.columns == ["key", "at_ms"]
    with pytest.raises(TableError, match="column failed holds int, expected boolean"):
        check_events(frame.withColumn("failed", frame.at_ms))


def test_every_broken_rule_of_extensions_is_reported(spark):
    """Each bad extension is rejected with its reason."""
    rows = [("a", 1, 2), ("", 1, 2), ("a", None, 2), ("a", 1, -2), ("a", 1, INT64_MAX)]
    checked = check_extensions(spark.createDataFrame(rows, EXTENSIONS))
    assert [tuple(row) for row in checked.good.collect()] == [("a", 1, 2)]
    assert [row.reason.split(":")[0] for row in checked.rejected.collect()] == [
        "column op_id",
        "column at_ms",
        "column timeout_ms",
        "column timeout_ms",
    ]


def test_good_rows_have_the_table_s_types(spark):
    """Good rows have the types of the table, whatever integers they came with."""
    frame = spark.createDataFrame(
        [("o", 1, Decimal(5), ["a"])],
        "op_id string, submitted_ms tinyint, timeout_ms decimal(20), keys array<string>",
    )
    good = check_operations(frame).good
    assert [(f.name, f.dataType) for f in OPERATIONS] == [(f.name, f.dataType) for f in good.schema]
    assert [tuple(row) for row in good.collect()] == [("o", "", 1, 5, ["a"], 1)]


def test_an_unsigned_integer_out_of_range_is_rejected(spark):
    """An unsigned integer above 63 bits is rejected, not wrapped."""
    schema = StructType([StructField("key", StringType()), StructField("at_ms", DecimalType(20))])
    checked = check_events(spark.createDataFrame([("a", Decimal(2**63))], schema))
    assert checked.good.isEmpty()
    assert checked.rejected.head().reason == (
        f"column at_ms: '{2**63}', expected an integer of 64 bits"
    )


def test_bytes_that_are_not_utf_8_are_rejected(spark):
    """A key that is not UTF-8 is rejected, as in every reader of a trace."""
    frame = spark.range(1).select(
        F.unhex(F.lit("61FF")).cast("string").alias("key"), F.lit(1).alias("at_ms")
    )
    assert check_events(frame).rejected.count() == 1


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_settings_of_a_session_change_nothing(spark, ansi):
    """The checks do not depend on whether overflow raises in the session."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = spark.createDataFrame([changed("timeout_ms", INT64_MAX), GOOD], LOOSE)
        assert check_operations(frame).rejected.count() == 1
        assert check_operations(frame).good.count() == 1
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("check", "columns", "message"),
    [
        (check_events, "at_ms long", "not a table of events, it has no column key"),
        (check_operations, "x int", "no column op_id, submitted_ms, timeout_ms, keys"),
        (check_events, "key string, at_ms double", "column at_ms holds double, expected bigint"),
        (check_events, "key int, at_ms int", "column key holds int, expected string"),
        (
            check_operations,
            "op_id string, submitted_ms int, timeout_ms int, keys string",
            "column keys holds string, expected array<string>",
        ),
        (check_events, "key string, at_ms decimal(9,2)", "holds decimal(9,2), expected bigint"),
        (check_events, "key string, at_ms decimal(9)", "holds decimal(9,0), expected bigint"),
        (check_events, "key string, at_ms decimal(38)", "holds decimal(38,0), expected bigint"),
    ],
)
def test_wrong_columns_are_named_at_once(spark, check, columns, message):
    """A missing or wrong column raises before any row is read."""
    with pytest.raises(TableError, match=message.replace("(", r"\(").replace(")", r"\)")):
        check(spark.createDataFrame([], columns))


def test_columns_of_other_names_are_passed_over(spark):
    """Other columns are ignored, even if named like internal ones."""
    frame = spark.createDataFrame(
        [("a", 1, "x", 2.0)], "key string, at_ms int, _reason string, z double"
    )
    checked = check_events(frame)
    assert [tuple(row) for row in checked.good.collect()] == [("a", 1)]
    assert checked.rejected.isEmpty()


texts = st.sampled_from(["", "a", "b", "é", None])
FAR = [-FARTHEST_MS - 1, -FARTHEST_MS, FARTHEST_MS, FARTHEST_MS + 1]
integers = st.sampled_from([None, INT64_MIN, -1, 0, 1, 2, 3, *FAR, INT64_MAX - 1, INT64_MAX])
rows = st.tuples(
    st.sampled_from(["", "o", None]),
    texts,
    integers,
    integers,
    st.none() | st.lists(texts, max_size=3),
    integers,
)


def accepted(row):
    """Return the operation that the in-process reader makes of a row; None if it refuses it."""
    try:
        return tables.OPERATIONS.make(*row)
    except BadValue:
        return None


def test_the_same_rows_are_good_as_in_process(spark):
    """The reader of a trace and Spark agree on random rows, most of them bad."""
    drawn = []

    @settings(
        max_examples=500,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(rows)
    def draw(row):
        drawn.append(row)

    draw()
    checked = check_operations(spark.createDataFrame(drawn, LOOSE))
    wanted = [row for row in map(accepted, drawn) if row is not None]
    got = [Operation(*row[:4], tuple(row[4]), row[5]) for row in checked.good.collect()]
    assert sorted(wanted) == sorted(got)
    assert len(drawn) - len(wanted) == checked.rejected.count()
