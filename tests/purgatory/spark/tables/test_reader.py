"""Files as checked tables: all formats, each row good or rejected, bad files named at once."""

import gzip
import json

import pytest

from purgatory.spark.errors import SparkError, TableError, wrapping_spark_errors
from purgatory.spark.tables.reader import find_files, local_table, read_table
from purgatory.spark.tables.row_checks import EVENTS_TABLE, OPERATIONS_TABLE
from purgatory.spark.tables.schema import OPERATIONS
from purgatory.trace import SkippedRows
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


def test_a_directory_that_spark_wrote(spark, tmp_path):
    """A directory partitioned by a column of the table is read."""
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "key string, at_ms long")
    frame.write.partitionBy("at_ms").parquet(f"{tmp_path}/out")
    assert sorted(
        values(read_table(spark, f"{tmp_path}/out", EVENTS_TABLE).good.select("key", "at_ms"))
    ) == [
        ("a", 1),
        ("b", 2),
    ]


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
        "empty.csv": "not a table of events, it has no column key, at_ms",
        "bad.parquet": "bad.parquet is not a Parquet file",
        "no.suffix": "no file with a suffix of .parquet, .csv, .jsonl",
        "nothing": "no file with a suffix of .parquet, .csv, .jsonl",
        "elsewhere.csv": "not found",
    }


def test_what_cannot_be_read_is_named_at_once(spark, tmp_path):
    """The call that opens a bad file raises, before any job over its rows."""
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(TableError) as raised:
            read_table(spark, f"{tmp_path}/{name}", EVENTS_TABLE)
        assert str(raised.value).startswith(f"{tmp_path}/{name}: ")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_wrong_types_of_parquet_are_named_at_once(spark, tmp_path):
    """The error names the column, its type and the expected type."""
    frame = spark.createDataFrame([("a", 1.5)], "key string, at_ms double")
    frame.toPandas().to_parquet(tmp_path / "e.parquet")
    with pytest.raises(TableError, match=r"e.parquet: column at_ms holds double, expected bigint"):
        read_table(spark, f"{tmp_path}/e.parquet", EVENTS_TABLE)


def test_parquet_files_of_different_types_are_refused(spark, tmp_path):
    """Files with different types of a column are refused, not read as nulls."""
    for name, kind in (("1", "long"), ("2", "string")):
        frame = spark.createDataFrame([("a", None)], f"key string, at_ms {kind}").coalesce(1)
        frame.write.parquet(f"{tmp_path}/e/n={name}")
    with pytest.raises(TableError, match=r"BIGINT.*STRING|STRING.*BIGINT"):
        read_table(spark, f"{tmp_path}/e", EVENTS_TABLE)


def test_csv_files_with_different_headers_are_refused(spark, tmp_path):
    """Files with different headers are refused, as their columns would be mixed up."""
    write(tmp_path / "1.csv", EVENTS_CSV)
    write(tmp_path / "2.csv", "at_ms,key\n1,a\n")
    checked = read_table(spark, str(tmp_path), EVENTS_TABLE)
    with pytest.raises(SparkError, match=r"2\.csv.*header does not conform"):
        with wrapping_spark_errors("reading"):
            checked.rejected.count()


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


def test_files_are_found_in_order(spark, tmp_path):
    """Files are sorted by name, and their suffixes listed by format."""
    for name in ("b.csv", "a b.csv", "a.jsonl.gz", "c.PARQUET", "c.parquet.gz", ".d.csv"):
        write(tmp_path / name, "")
    files = find_files(spark, str(tmp_path))
    assert files.suffixes == {"csv": [".csv"], "json": [".jsonl.gz"], "parquet": [".PARQUET"]}
    assert [name.rpartition("/")[2] for name in files.names] == [
        "a%20b.csv",
        "a.jsonl.gz",
        "b.csv",
        "c.PARQUET",
    ]


def test_an_empty_parquet_file_is_named_in_one_line(spark, tmp_path):
    """It has not even a footer."""
    (tmp_path / "e.parquet").touch()
    with pytest.raises(TableError, match=r"e\.parquet: an empty file is no Parquet") as caught:
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
