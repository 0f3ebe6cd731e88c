"""The data source: the rows of a journal, only the columns and files that a query needs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)
from pyspark.sql.types import LongType, StringType, StructType

from purgatory.journal.files import JournalFiles
from purgatory.spark.errors import TableError
from purgatory.spark.read import JournalReader, JournalSource, may_contain, register
from purgatory.trace import Operation, read_outcomes, write_operations, write_outcomes
from purgatory.trace.tables import OPERATIONS, OUTCOMES
from tests.testing.journals import make_outcome, random_outcomes

DAY = 86_400_000
AT, KEY = ("at_ms",), ("by_key",)
COLUMNS = (
    StructType().add("op_id", StringType()).add("at_ms", LongType()).add("by_key", StringType())
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A server's data directory: outcomes of three days, one of them before 1970, operations."""
    home = tmp_path_factory.mktemp("data")
    rows = [
        make_outcome(n, day * DAY, 9, 5, key=f"k{n % 2}") for n, day in enumerate((-1, 0, 0, 1))
    ]
    rows = [r._replace(at_ms=r.submitted_ms + 5) for r in rows]
    rows.append(make_outcome(4, DAY, 7, kind="b"))
    outcomes = JournalFiles(home / "journal" / "outcomes", OUTCOMES, "s")
    outcomes.append(enumerate(rows, 1))
    operations = [Operation("o0", "", 0, 9, ("k0", "k1"), 2)]
    JournalFiles(home / "journal" / "operations", OPERATIONS, "s").append(enumerate(operations, 1))
    # What a running server is writing.
    (home / "journal" / "outcomes" / "date=1970-01-02" / ".unfinished-7-0").write_bytes(b"PAR1")
    return home


def read(path, *filters, columns=COLUMNS, table="outcomes"):
    """Read without Spark: the number of files, and the rows of their batches."""
    reader = JournalReader(str(path), table, columns)
    assert list(reader.pushFilters(list(filters))) == list(filters)
    files = [file for file in reader.partitions() if file.value is not None]
    batches = [batch for file in files for batch in reader.read(file)]
    assert all(batch.schema.names == columns.names for batch in batches)
    return len(files), [row["op_id"] for batch in batches for row in batch.to_pylist()]


def test_all_files_of_a_running_server(data_dir):
    """Of a data directory and of its journal the same; unfinished files are passed over."""
    for path in (data_dir, data_dir / "journal", data_dir / "journal" / "outcomes"):
        assert read(path) == (3, ["o0", "o1", "o2", "o3", "o4"])
    assert read(f"file:{data_dir}")[0] == 3


def test_several_servers(data_dir, tmp_path):
    """Their directory is refused: rows that two servers have written would come twice."""
    (tmp_path / "tcp_a").symlink_to(data_dir)
    with pytest.raises(TableError, match="has journals of several servers; expected one of them"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("filters", "files", "rows"),
    [
        ([EqualTo(AT, DAY + 5)], 1, ["o3"]),
        ([LessThan(AT, 5), LessThanOrEqual(AT, 7)], 2, ["o0"]),
        ([GreaterThanOrEqual(AT, DAY)], 1, ["o3", "o4"]),
        ([GreaterThan(AT, DAY + 5)], 1, ["o4"]),
        ([GreaterThan(AT, 9 * DAY)], 0, []),
        ([IsNull(KEY)], 3, ["o4"]),
        ([IsNotNull(KEY), Not(EqualTo(KEY, "k0"))], 3, ["o1", "o3"]),
        ([In(KEY, ("k0", "k9"))], 3, ["o0", "o2"]),
        # What Arrow is not asked, and a condition with null, which is never true in Spark.
        ([StringContains(KEY, "1")], 3, ["o0", "o1", "o2", "o3", "o4"]),
        ([In(KEY, ("k0", None))], 3, ["o0", "o1", "o2", "o3", "o4"]),
        ([Not(In(KEY, ("k0",)))], 3, ["o0", "o1", "o2", "o3", "o4"]),
    ],
)
def test_filters_read_less(data_dir, filters, files, rows):
    """Files of other days are not opened; of the others only rows that meet the filters come."""
    assert read(data_dir, *filters) == (files, rows)


@pytest.mark.parametrize(
    ("unit", "in_a_second"), [("s", 1), ("ms", 1_000), ("us", 10**6), ("ns", 10**9)]
)
def test_times_may_be_timestamps(tmp_path, unit, in_a_second):
    """They are rounded down to milliseconds, as on every way into a replay; filters still hold."""
    path = tmp_path / "outcomes.parquet"
    seconds = (-1, 2)
    with write_outcomes(path) as out:
        for n, second in enumerate(seconds):
            out.write(make_outcome(n, second * 1_000, 9, 0, key="k"))
    table = pq.read_table(path)
    odd = max(0, in_a_second // 1_000 - 1)  # just less than a millisecond
    for name in ("at_ms", "submitted_ms"):
        counts = [second * in_a_second + odd for second in seconds]
        stamps = pa.array(counts, pa.timestamp(unit, "UTC"))
        table = table.set_column(table.schema.get_field_index(name), name, stamps)
    pq.write_table(table, path)
    with read_outcomes(path) as expected:
        times = [row.at_ms for row in expected]
    assert times == [-1_000, 2_000]
    reader = JournalReader(str(path), "outcomes", COLUMNS)
    reader.pushFilters([GreaterThan(AT, 0), Not(EqualTo(AT, 7)), EqualTo(KEY, "k")])
    (file,) = reader.partitions()
    (batch,) = reader.read(file)
    assert batch.schema.types == [pa.string(), pa.int64(), pa.string()]
    assert batch["at_ms"].to_pylist() == times


def test_only_days_of_a_journal_are_passed_over():
    """Other partitions may be by another date; a name that is no day is no reason to fail."""
    of_journal = f"s-{1:020}-{2:020}.parquet"
    for day, name, may in (
        ("2026-02-03", of_journal, False),
        ("1970-01-01", of_journal, True),
        ("2026-02-30", of_journal, True),
        ("2026-02-03", "part-0.parquet", True),
    ):
        assert may_contain(Path(f"date={day}") / name, 0, 1) == may


def test_only_the_columns_asked_for(data_dir):
    """A column that is not in the schema is not read; an optional one that a file lacks is null."""
    columns = StructType().add("op_id", StringType())
    assert read(data_dir, columns=columns)[1][0] == "o0"
    source = JournalSource({"path": str(data_dir), "table": "operations"})
    assert source.schema().names == list(OPERATIONS.names)
    with pytest.raises(TableError, match=r"column at_ms string is not in outcomes; expected op_id"):
        JournalSource({"path": "p"}).reader(StructType().add("at_ms", StringType()))


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("Hold_ms", [2], "column Hold_ms differs from hold_ms only by case"),
        ("hold_ms", pa.array([2], pa.duration("ns")), r"hold_ms holds duration\[ns\]"),
        ("hold_ms", [2.0], "hold_ms holds double, expected integer"),
    ],
)
def test_a_column_that_a_replay_refuses(tmp_path, name, values, said):
    """It is refused, as by all readers: its values would be missed, or misread."""
    file = tmp_path / "events.parquet"
    pq.write_table(pa.table({"key": ["a"], "at_ms": [1], name: values}), file)
    columns = StructType().add("key", StringType())
    with pytest.raises(TableError, match=said):
        read(tmp_path, columns=columns, table="events")


def test_which_rows_are_checked(tmp_path):
    """Those of text, whose reader checks them; a bad one ends the query."""
    bad = {"key": [""], "at_ms": [1]}
    columns = StructType().add("key", StringType())
    pq.write_table(pa.table(bad), tmp_path / "events.parquet")
    reader = JournalReader(str(tmp_path), "events", columns)
    [batch] = [batch for file in reader.partitions() for batch in reader.read(file)]
    assert batch.to_pylist() == [{"key": ""}]
    (tmp_path / "events.parquet").unlink()
    (tmp_path / "events.jsonl").write_text('{"key": "", "at_ms": 1}\n')
    reader = JournalReader(str(tmp_path), "events", columns)
    with pytest.raises(TableError, match="line 1, column key: '', expected"):
        list(reader.read(reader.partitions()[0]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no path"),
        ({"path": "p", "table": "locks"}, "table is 'locks'; expected one of outcomes, operations"),
    ],
)
def test_bad_options(options, said):
    """They are refused with what was expected."""
    with pytest.raises(TableError, match=said):
        JournalSource(options)


def test_bad_paths(tmp_path):
    """A path that is missing, ambiguous or not of this machine is named."""
    for name in ("outcomes.csv", "outcomes.jsonl"):
        (tmp_path / name).write_text("")
    for path, said in (
        (tmp_path / "no", "No such file"),
        (tmp_path, "several tables of outcomes: outcomes.csv, outcomes.jsonl"),
        ("hdfs://node/journal", "reads files of this machine; use spark.read.parquet"),
    ):
        with pytest.raises(TableError, match=said):
            read(path)


def test_in_spark(spark, tmp_path):
    """A notebook gets the rows of Parquet and text, and typed errors."""
    register(spark)
    rows = random_outcomes(3, 50)
    with write_outcomes(tmp_path / "outcomes.parquet") as out:
        for row in rows:
            out.write(row)
    with write_operations(tmp_path / "operations.jsonl") as out:
        out.write(Operation("o1", "a", 0, 5, ("k", "l"), 2))
    frame = spark.read.format("purgatory").load(str(tmp_path))
    with read_outcomes(tmp_path / "outcomes.parquet") as expected:
        assert sorted(map(tuple, frame.collect()), key=repr) == sorted(
            map(tuple, expected), key=repr
        )
    expired = frame.where((F.col("outcome") == "expired") & (F.col("kind") == "a"))
    assert expired.count() == sum((r.outcome, r.kind) == ("expired", "a") for r in rows)
    operations = spark.read.format("purgatory").option("table", "operations")
    assert operations.schema("keys array<string>, need int").load(str(tmp_path)).collect() == [
        (["k", "l"], 2)
    ]
    with pytest.raises(AnalysisException, match="nowhere: No such file"):
        spark.read.format("purgatory").load(str(tmp_path / "nowhere")).count()
