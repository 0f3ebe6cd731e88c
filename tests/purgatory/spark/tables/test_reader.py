"""Files as checked tables: all formats, each row good or rejected, bad files named at once."""

import gzip
import json
import os
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from purgatory.spark.errors import SparkError, TableError, wrapping_spark_errors
from purgatory.spark.tables.line_parser import CSV, JSON
from purgatory.spark.tables.reader import (
    PARQUET,
    find_files,
    format_of,
    local_table,
    read_table,
)
from purgatory.spark.tables.row_checks import EVENTS_TABLE, OPERATIONS_TABLE
from purgatory.spark.tables.schema import OPERATIONS
from purgatory.trace import KeyEvent, SkippedRows, TraceError, write_events
from purgatory.trace import read_events as read_events_in_process
from purgatory.trace import read_operations as read_operations_in_process

EVENTS_CSV = "key,at_ms\na,1\nb,2\n"

ODD_CSV = """\
 at_ms ,extra,key
1,z,a
2,"x
y",b
3,z,"say ""hi"" twice"
,,c
4,5
5,z,d,e
x,y,z
12.5,q,q
 7 ,q,q
+8,q,q
0x9,q,q
1_0,q,q
99999999999999999999,q,q
,,

6,q,
"""
ODD_JSON = """\
{"key":"a","at_ms":1,"seq":"mine"}
{"key":5,"at_ms":2}
{"key":"a","at_ms":"2"}
{"key":"a","at_ms":1.0}
{"key":"a","at_ms":1e3}
{"key":"a","at_ms":true}
{"key":["a"],"at_ms":2}
{"key":null,"at_ms":2}
{"at_ms":3}
{"key":"a","at_ms":99999999999999999999}
nonsense
[1]

{"key":"é","at_ms":-9}
"""
ODD_OPERATIONS = """\
{"op_id":"1","kind":"K","submitted_ms":1,"timeout_ms":1,"keys":["a","b"],"need":2}
{"op_id":"2","kind":null,"submitted_ms":1,"timeout_ms":1,"keys":["a","b"],"need":null}
{"op_id":"3","kind":4,"submitted_ms":1,"timeout_ms":1,"keys":["a","b"]}
{"op_id":"4","submitted_ms":1,"timeout_ms":1,"keys":"a"}
{"op_id":"5","submitted_ms":1,"timeout_ms":1,"keys":["a",null]}
{"op_id":"6","submitted_ms":1,"timeout_ms":1,"keys":[1]}
{"op_id":"7","submitted_ms":1,"timeout_ms":1,"keys":["a",1]}
{"op_id":"8","submitted_ms":1,"timeout_ms":1,"keys":[]}
{"op_id":"9","submitted_ms":1,"timeout_ms":1,"keys":["a"],"need":"1"}
"""
ODD_OPERATIONS_CSV = """\
op_id,submitted_ms,timeout_ms,keys,need,kind
1,1,5,a|b,2,K
2,1,-5,a|b,2,
3,1,5,,,
4,1,5,a,,
5,1,5,a||b,1,
6,1,5,a|b,3,
"""


ODD_HOLDS = """\
{"key":"a","at_ms":1,"hold_ms":5,"failed":true}
{"key":"b","at_ms":1,"hold_ms":null,"failed":null}
{"key":"c","at_ms":1,"hold_ms":-1}
{"key":"d","at_ms":1,"hold_ms":"1"}
{"key":"e","at_ms":1,"hold_ms":1.5}
{"key":"f","at_ms":1,"hold_ms":true}
{"key":"g","at_ms":1,"hold_ms":9223372036854775807}
{"key":"h","at_ms":1,"failed":0}
{"key":"i","at_ms":1,"failed":"true"}
{"key":"j","at_ms":1,"failed":[true]}
{"key":"k","at_ms":1}
"""
ODD_HOLDS_CSV = """\
failed,key,at_ms,hold_ms
true,a,1,5
,b,1,
FALSE,c,1, 7
,d,1,-1
,e,1,x
,f,1,1.5
,g,1,9223372036854775807
1,h,1,
yes,i,1,
 true,j,1,
"""


def write(path, text):
    """Write a text file, compressed if its name ends in .gz; return its path."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


def values(frame):
    """Return the rows of a DataFrame as tuples, in order."""
    return [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", ODD_CSV),
        ("e.jsonl", ODD_JSON),
        ("e.ndjson.gz", ODD_JSON),
        ("e.csv", ODD_HOLDS_CSV),
        ("e.jsonl", ODD_HOLDS),
    ],
)
def test_the_same_events_are_good_as_in_process(spark, tmp_path, name, text):
    """The reader of a trace and Spark accept the same lines of events."""
    path = write(tmp_path / name, text)
    skipped = SkippedRows()
    wanted = list(read_events_in_process(path, on_bad=skipped))
    checked = read_table(spark, path, EVENTS_TABLE)
    good = checked.good.orderBy("seq").drop("seq")
    assert [row[: len(good.columns)] for row in wanted] == values(good)
    rejected = checked.rejected.collect()
    assert skipped.count == len(rejected) > 5
    assert {path} == {row.file for row in rejected}


@pytest.mark.parametrize(
    ("name", "text"), [("o.json", ODD_OPERATIONS), ("o.csv.gz", ODD_OPERATIONS_CSV)]
)
def test_the_same_operations_are_good_as_in_process(spark, tmp_path, name, text):
    """They also agree on lists of keys, defaults, and numbers in text."""
    path = write(tmp_path / name, text)
    skipped = SkippedRows()
    wanted = list(read_operations_in_process(path, on_bad=skipped))
    checked = read_table(spark, path, OPERATIONS_TABLE)
    got = [(*row[:4], tuple(row[4]), row[5]) for row in values(checked.good)]
    assert sorted(wanted) == sorted(got)
    assert skipped.count == checked.rejected.count()


def test_every_layout_of_texts_is_read_as_in_process(spark, tmp_path):
    """Views, lists of one size and dictionaries, as other programs write them, a file of each."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    lists = [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_view(pa.string_view()),
        pa.list_(pa.string(), 2),
    ]
    for number, (text, keys) in enumerate(zip(texts, lists, strict=True)):
        columns = {
            "op_id": pa.array([f"o{number}", "p" * 20]).cast(text),
            "kind": pa.array(["x", None]).cast(text),
            "submitted_ms": [number, number],
            "timeout_ms": [1, 1],
            "keys": pa.array([["k", "l"], ["m" * 20, "n"]], keys),
        }
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
        path = str(tmp_path / f"{number}.parquet")
        good = read_table(spark, path, OPERATIONS_TABLE).good.orderBy("op_id")
        found = [(*row[:4], tuple(row.keys), row.need) for row in good.collect()]
        assert found == [tuple(row) for row in read_operations_in_process(path)]


def test_a_rejected_row_is_shown_in_its_original_form(spark, tmp_path):
    """A rejected row is shown as JSON, or as text if it could not be parsed."""
    path = write(tmp_path / "a b+c%20é.jsonl", '{"key":5,"at_ms":[2]}\nnonsense\n')
    rejected = read_table(spark, path, EVENTS_TABLE).rejected.collect()
    assert [(row.file, row.row) for row in rejected] == [
        (path, '{"key":5,"at_ms":[2]}'),
        (path, "nonsense"),
    ]
    assert rejected[0].reason == "column key: '5', expected non-empty UTF-8 text"
    assert rejected[1].reason == "the row cannot be taken apart"


def test_a_directory_of_all_formats(spark, tmp_path):
    """Events are ordered by file name and row; hidden files and other formats are ignored."""
    write(tmp_path / "3.csv", EVENTS_CSV)
    write(tmp_path / "1.jsonl", '{"key":"c","at_ms":1}\n{"key":"d","at_ms":1}\n')
    frame = spark.createDataFrame([("e", 1), ("f", 1)], "key string, at_ms int").coalesce(1)
    frame.toPandas().to_parquet(tmp_path / "2 é.parquet")
    write(tmp_path / "4.CSV.gz", EVENTS_CSV)
    write(tmp_path / "_notes.csv", "nonsense")
    write(tmp_path / "README.md", "nonsense")
    checked = read_table(spark, str(tmp_path), EVENTS_TABLE)
    assert "".join(row.key for row in checked.good.orderBy("seq").collect()) == "cdefabab"
    assert checked.rejected.isEmpty()


def test_rows_of_a_split_file_keep_their_order(spark, tmp_path):
    """The order holds in a file of several blocks, some in one partition with another file."""
    lines = [json.dumps({"key": f"k{n}", "at_ms": 0}) for n in range(4000)]
    write(tmp_path / "a.jsonl", "\n".join(lines[:1000]) + "\n")
    write(tmp_path / "b.jsonl", "\n".join(lines[1000:]) + "\n")
    settings = {
        "spark.sql.files.maxPartitionBytes": "20000",
        "spark.sql.files.openCostInBytes": "0",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        good = read_table(spark, str(tmp_path), EVENTS_TABLE).good
        assert good.rdd.getNumPartitions() > 3
        assert [f"k{n}" for n in range(4000)] == [row.key for row in good.orderBy("seq").collect()]
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_column_that_only_some_parquet_files_have_is_not_lost(spark, tmp_path):
    """`need` is read from the file that has it, and is 1 in the other one."""
    columns = "op_id string, submitted_ms long, timeout_ms long, keys array<string>"
    one = spark.createDataFrame([("a", 1, 1, ["x", "y"])], columns)
    two = spark.createDataFrame([("b", 1, 1, ["x", "y"], 2)], f"{columns}, need int")
    for name, frame in (("1", one), ("2", two)):
        frame.toPandas().to_parquet(tmp_path / f"{name}.parquet")
    good = read_table(spark, str(tmp_path), OPERATIONS_TABLE).good
    assert dict(values(good.select("op_id", "need"))) == {"a": 1, "b": 2}


PARTITIONS = ["key=zzz", "at_ms=5", "hold_ms=7/failed=true", "date=1"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_names_of_directories_are_no_columns(spark, tmp_path, suffix):
    """What a file holds counts, as in a replay, whatever its directory is called."""
    tables = []
    for number, partition in enumerate(PARTITIONS):
        table = tmp_path / str(number)
        (table / partition).mkdir(parents=True)
        (table / "other").mkdir()  # no partition: its files are not of the table
        with write_events(table / "other" / f"no{suffix}") as out:
            out.write(KeyEvent("no", 1))
        with write_events(table / partition / f"e{suffix}") as out:
            out.write(KeyEvent(f"a{number}", 1))
        assert [KeyEvent(f"a{number}", 1)] == list(read_events_in_process(table))
        tables.append(read_table(spark, str(table), EVENTS_TABLE).good)
    all_tables = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tables)
    rows = all_tables.collect()
    assert sorted((row.key, row.at_ms) for row in rows) == [(f"a{n}", 1) for n in range(4)]
    for name in {"hold_ms", "failed"} & {*all_tables.columns}:
        assert not any(row[name] for row in rows)


def test_a_column_that_only_the_directory_names_is_missing(spark, tmp_path):
    """A replay refuses such files, too."""
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "key string, at_ms long")
    frame.write.partitionBy("at_ms").parquet(f"{tmp_path}/out")
    with pytest.raises(TableError, match="not a table of events, it has no column at_ms"):
        read_table(spark, f"{tmp_path}/out", EVENTS_TABLE)


ODD_NAMES = ["run[1]", "a{b,c}", "q?*", "a:b", "x y+%20", "back\\slash"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_path_that_exists_is_that_path(spark, tmp_path, suffix):
    """Characters of globs and of schemes are names, of files and of directories."""
    for name in ODD_NAMES:
        (tmp_path / name).mkdir()
        for path in (tmp_path / f"{name}{suffix}", tmp_path / name / f"{name}{suffix}"):
            with write_events(path) as out:
                out.write(KeyEvent(name, 1))
    for name in ("run1", "ab", "ac", "qxx"):  # what the globs would find
        with write_events(tmp_path / f"{name}{suffix}") as out:
            out.write(KeyEvent("another", 1))
    paths = [f"{tmp_path}/{name}{end}" for name in ODD_NAMES for end in ("", suffix)]
    tables = [read_table(spark, path, EVENTS_TABLE).good.select("key") for path in paths]
    found = values(reduce(DataFrame.union, tables))
    assert found == [(name,) for name in ODD_NAMES for _ in range(2)]


def test_a_path_that_does_not_exist_may_be_a_glob(spark, tmp_path):
    """It stands for all that match it."""
    for name in ("run1.csv", "run2.csv", "other.csv"):
        write(tmp_path / name, EVENTS_CSV.replace("a,", f"{name},"))
    good = read_table(spark, f"{tmp_path}/run[12].csv", EVENTS_TABLE).good.orderBy("seq")
    assert [row.key for row in good.collect()] == ["run1.csv", "b", "run2.csv", "b"]
    with pytest.raises(TableError, match=r"run\[34\]\.csv: not found"):
        read_table(spark, f"{tmp_path}/run[34].csv", EVENTS_TABLE)


def bad_files(directory):
    """Write files that are no table of events; return their names and error messages."""
    write(directory / "missing.csv", "key,x\n")
    write(directory / "missing.jsonl", '{"key":"a"}\n')
    write(directory / "empty.csv", "")
    write(directory / "bad.parquet", "nonsense" * 10)
    write(directory / "no.suffix", "nonsense")
    (directory / "nothing").mkdir()
    return {
        "missing.csv": "not a table of events, it has no column at_ms",
        "missing.jsonl": "not a table of events, it has no column at_ms",
        "empty.csv": "empty, not even a header line",
        "bad.parquet": "bad.parquet is not a Parquet file",
        "no.suffix": "no file with a suffix of .parquet, .csv, .jsonl",
        "nothing": "no file with a suffix of .parquet, .csv, .jsonl",
        "elsewhere.csv": "not found",
    }


def test_links_in_circles_and_names_that_are_not_utf_8(spark, tmp_path):
    """A link to a directory above is not followed; a name that Java cannot spell is named."""
    day = tmp_path / "date=2026-11-21"
    day.mkdir()
    write(day / "a.csv", EVENTS_CSV)
    (day / "again=1").symlink_to(tmp_path)
    assert find_files(spark, str(tmp_path)) == {f"{day}/a.csv": "csv"}
    Path(os.fsdecode(os.fsencode(day) + b"/\xff.csv")).write_text(EVENTS_CSV)
    with pytest.raises(TableError, match=r"udcff\.csv: Spark reads no name that is not UTF-8"):
        read_table(spark, str(tmp_path), EVENTS_TABLE)


def test_an_empty_directory_of_a_journal_is_an_empty_table(spark, tmp_path):
    """As in a replay: a server makes the directories of all tables before the first row."""
    events = tmp_path / "journal" / "events"
    (events / "date=2026-11-21").mkdir(parents=True)
    (events / "date=2026-11-21" / ".unfinished-1-0").touch()
    found = read_table(spark, f"{events}/", EVENTS_TABLE)
    assert (found.good.count(), found.rejected.count()) == (0, 0)
    assert {"key", "at_ms", "seq"} <= {*found.good.columns}
    with pytest.raises(TableError, match="an empty directory; expected a table of operations"):
        read_table(spark, str(events), OPERATIONS_TABLE)
    (events / "other").mkdir()
    with pytest.raises(TableError, match="no file with a suffix"):
        read_table(spark, str(events), EVENTS_TABLE)


def test_what_cannot_be_read_is_named_at_once(spark, tmp_path):
    """The call that opens a bad file raises, before any job over its rows."""
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(TableError) as raised:
            read_table(spark, f"{tmp_path}/{name}", EVENTS_TABLE)
        assert str(raised.value).startswith(f"{tmp_path}/{name}: ")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_of_text_the_first_file_is_looked_at(spark, tmp_path):
    """A later one without a column is named when it is read."""
    write(tmp_path / "a.csv", EVENTS_CSV)
    write(tmp_path / "b.csv", "key,x\n")
    found = read_table(spark, str(tmp_path), EVENTS_TABLE)
    with (
        pytest.raises(SparkError, match=r"b\.csv: not a table of events, it has no column"),
        wrapping_spark_errors("reading"),
    ):
        found.rejected.count()


def test_wrong_types_of_parquet_are_named_at_once(spark, tmp_path):
    """The error names the column, its type and the expected type."""
    frame = spark.createDataFrame([("a", 1.5)], "key string, at_ms double")
    frame.toPandas().to_parquet(tmp_path / "e.parquet")
    with pytest.raises(TableError, match=r"e.parquet: column at_ms holds double, expected bigint"):
        read_table(spark, f"{tmp_path}/e.parquet", EVENTS_TABLE)


def test_parquet_files_of_different_types_are_refused(spark, tmp_path):
    """A file with another type of a column is refused by name, not read as nulls."""
    for name, kind in (("1", "long"), ("2", "string")):
        frame = spark.createDataFrame([("a", None)], f"key string, at_ms {kind}").coalesce(1)
        frame.write.parquet(f"{tmp_path}/e/n={name}")
    with pytest.raises(TableError, match=r"n=2/.*: column at_ms holds string, expected bigint"):
        read_table(spark, f"{tmp_path}/e", EVENTS_TABLE)


TIMES = {
    "int32": pa.array([5], pa.int32()),
    "int64": pa.array([5], pa.int64()),
    "uint64": pa.array([5], pa.uint64()),
    "ms": pa.array([5], pa.timestamp("ms")),
    "ns": pa.array([5_000_000], pa.timestamp("ns")),
}


def test_parquet_files_with_different_kinds_of_integers_and_times(spark, tmp_path):
    """Each file is read by its own types, as in a replay."""
    for name, times in TIMES.items():
        pq.write_table(pa.table({"key": [name], "at_ms": times}), tmp_path / f"{name}.parquet")
    wanted = list(read_events_in_process(tmp_path))
    good = read_table(spark, str(tmp_path), EVENTS_TABLE).good.orderBy("seq")
    assert [row[:2] for row in wanted] == values(good.select("key", "at_ms"))
    assert {row.at_ms for row in wanted} == {5}


@pytest.mark.parametrize(
    "other",
    [
        pa.array([1], pa.time32("ms")),
        pa.array([1], pa.time64("ns")),
        pa.array([1], pa.float16()),
        pa.array([1], pa.timestamp("ns")),
        pa.nulls(1),
    ],
)
@pytest.mark.parametrize("name", ["other", "_metadata"])
def test_other_columns_of_parquet_are_ignored(spark, tmp_path, other, name):
    """Also of types that Spark does not know, and by a name that Spark uses itself."""
    for number in (1, 2):
        columns = {"key": [f"k{number}"], "at_ms": [number]}
        more = {name: other} if number == 1 else {}
        pq.write_table(pa.table({**columns, **more}), tmp_path / f"{number}.parquet")
    good = read_table(spark, str(tmp_path), EVENTS_TABLE).good.orderBy("seq")
    assert values(good.select("key", "at_ms")) == [("k1", 1), ("k2", 2)]


def test_columns_of_nulls_without_a_type(spark, tmp_path):
    """A default stands for its nulls; without a default each row is rejected, as in a replay."""
    columns = {"op_id": ["o"], "submitted_ms": [1], "timeout_ms": [5], "keys": [["a"]]}
    path = tmp_path / "1.parquet"
    nulls = {"kind": pa.nulls(1), "need": pa.nulls(1)}
    pq.write_table(pa.table({**columns, **nulls}), path)
    pq.write_table(pa.table({**columns, "kind": ["k"]}), tmp_path / "2.parquet")
    found = read_table(spark, str(tmp_path), OPERATIONS_TABLE).good.orderBy("kind")
    assert values(found.select("op_id", "kind", "need")) == [("o", "", 1), ("o", "k", 1)]
    pq.write_table(pa.table({**columns, "op_id": pa.nulls(1)}), path)
    checked = read_table(spark, str(path), OPERATIONS_TABLE)
    assert checked.good.count() == 0
    (row,) = checked.rejected.collect()
    assert (row.file, row.reason) == (
        str(path),
        "column op_id: nothing, expected non-empty UTF-8 text",
    )


def test_durations_of_parquet_are_no_timestamps(spark, tmp_path):
    """Also in a session that reads nanoseconds as integers."""
    for unit in ("us", "ns"):
        hold = pa.array([5], pa.timestamp(unit))
        pq.write_table(
            pa.table({"key": ["a"], "at_ms": [1], "hold_ms": hold}), tmp_path / "e.parquet"
        )
        with pytest.raises(TableError, match=r"column hold_ms holds timestamp.*expected bigint"):
            read_table(spark, str(tmp_path), EVENTS_TABLE)


JSON_TEXTS = pa.array(['"k"'], pa.json_())


def test_a_type_that_spark_takes_for_another_is_refused_in_each_file(spark, tmp_path):
    """As in a replay; Spark infers the same schema of both files."""
    columns = {"op_id": ["o"], "submitted_ms": [1], "keys": [["k"]]}
    durations = pa.array([5_000], pa.duration("us"))
    for name, array in (("1", pa.array([5])), ("2", durations)):
        pq.write_table(pa.table({**columns, "timeout_ms": array}), tmp_path / f"{name}.parquet")
    with pytest.raises(TraceError, match=r"2\.parquet: column timeout_ms holds"):
        list(read_operations_in_process(tmp_path))
    with pytest.raises(TableError, match=r"2\.parquet: column timeout_ms holds DURATION, expected"):
        read_table(spark, str(tmp_path), OPERATIONS_TABLE)


def test_texts_that_are_marked_as_json(spark, tmp_path):
    """They are texts, as for a replay, also in lists."""
    columns = {"op_id": ["o"], "submitted_ms": [1], "timeout_ms": [5], "kind": JSON_TEXTS}
    keys = pa.ListArray.from_arrays([0, 1], JSON_TEXTS)
    pq.write_table(pa.table({**columns, "keys": keys}), tmp_path / "o.parquet")
    [replayed] = read_operations_in_process(tmp_path)
    [row] = read_table(spark, str(tmp_path), OPERATIONS_TABLE).good.collect()
    assert (row.kind, row["keys"]) == (replayed.kind, list(replayed.keys)) == ('"k"', ['"k"'])


def test_names_of_columns_that_differ_only_by_case(spark, tmp_path):
    """Spark takes them for one; they are named before a job starts."""
    pq.write_table(pa.table({"key": ["a"], "KEY": ["b"], "at_ms": [1]}), tmp_path / "e.parquet")
    with pytest.raises(TableError, match=r"/e\.parquet: .* KEY differs from key only by case"):
        read_table(spark, str(tmp_path), EVENTS_TABLE)


def test_names_of_two_files_that_differ_only_by_case(spark, tmp_path):
    """Spark would read both as one column; a replay takes the second for another column."""
    columns = {"key": ["a"], "at_ms": [1]}
    pq.write_table(pa.table({**columns, "hold_ms": [2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({**columns, "Hold_ms": [3]}), tmp_path / "2.parquet")
    words = r"/2\.parquet: .* Hold_ms differs from hold_ms only by case"
    with pytest.raises(TableError, match=words):
        read_table(spark, str(tmp_path), EVENTS_TABLE)
    assert spark.conf.get("spark.sql.caseSensitive") == "false"


@pytest.mark.parametrize("digits", [9, 18, 20, 38])
def test_decimals_are_refused(spark, tmp_path, digits):
    """Those of 20 digits, too, though Spark reads unsigned integers as such."""
    times = pa.array([Decimal(5)], pa.decimal128(digits, 0))
    pq.write_table(pa.table({"key": ["a"], "at_ms": times}), tmp_path / "e.parquet")
    with pytest.raises(TraceError, match="column at_ms holds decimal"):
        read_events_in_process(tmp_path)
    with pytest.raises(TableError, match=r"(?i)column at_ms holds decimal.*expected bigint"):
        read_table(spark, str(tmp_path), EVENTS_TABLE)


def test_each_csv_file_has_a_header_of_its_own(spark, tmp_path):
    """A file without a column is refused when the reading comes to it, by its name."""
    write(tmp_path / "1.csv", EVENTS_CSV)
    write(tmp_path / "2.csv", "at_ms,more,key\n1,2,c\n")
    good = read_table(spark, str(tmp_path), EVENTS_TABLE).good.orderBy("seq")
    assert values(good.select("key", "at_ms")) == [("a", 1), ("b", 2), ("c", 1)]
    write(tmp_path / "3.csv", "key\na\n")
    checked = read_table(spark, str(tmp_path), EVENTS_TABLE)
    with pytest.raises(SparkError, match=r"^reading: .*3\.csv: not a table of events") as raised:
        with wrapping_spark_errors("reading"):
            checked.rejected.count()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("ignore", ["true", "false"])
def test_a_damaged_file_stops_the_reading(spark, tmp_path, ignore):
    """A damaged file raises even in a session that ignores corrupt files."""
    whole = gzip.compress(("key,at_ms\n" + "a,1\n" * 99_999).encode())
    (tmp_path / "e.csv.gz").write_bytes(whole[:-30])
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", ignore)
    try:
        with pytest.raises(SparkError, match=r"^reading: .*e\.csv\.gz") as raised:
            with wrapping_spark_errors("reading"):
                read_table(spark, f"{tmp_path}/e.csv.gz", EVENTS_TABLE).rejected.count()
        assert "\n" not in str(raised.value)
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.parquet", PARQUET),
        ("part-0.snappy.parquet", PARQUET),
        ("a.json", JSON),
        ("a.jsonl.gz", JSON),
        ("a.ndjson", JSON),
        ("a.csv", CSV),
        ("a.CSV.gz", CSV),
        ("a.parquet.gz", None),
        ("a.gz", None),
        ("parquet", None),
    ],
)
def test_the_name_of_a_file_tells_its_format(name, form):
    """The suffix decides the format."""
    assert format_of(name) == form


def test_files_are_found_in_order(spark, tmp_path):
    """Files are sorted by name, and listed by format."""
    for name in ("b.csv", "a b.csv", "a.jsonl.gz", "c.PARQUET", "c.parquet.gz", ".d.csv"):
        write(tmp_path / name, "key")
    files = find_files(spark, str(tmp_path))
    assert [(name.rpartition("/")[2], kind) for name, kind in files.items()] == [
        ("a b.csv", "csv"),
        ("a.jsonl.gz", "json"),
        ("b.csv", "csv"),
        ("c.PARQUET", "parquet"),
    ]


def test_an_empty_parquet_file_is_named_in_one_line(spark, tmp_path):
    """It has not even a footer."""
    (tmp_path / "e.parquet").touch()
    with pytest.raises(TableError, match=r"e\.parquet: an empty file, not Parquet") as caught:
        read_table(spark, str(tmp_path / "e.parquet"), EVENTS_TABLE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "rows", [[], [("o", None, -(2**63), 2**63 - 1, ["a", "日本"], 1), (None,) * 6]]
)
def test_rows_come_back(spark, rows, capsys):
    """Nulls, lists and the ends of 64 bits are kept; the plan contains the table itself."""
    table = local_table(spark, OPERATIONS, rows)
    assert table.schema == OPERATIONS
    assert rows == [tuple(row) for row in table.collect()]
    table.explain()
    assert "LocalTableScan" in capsys.readouterr().out
