"""The batch job: good rows become outcomes, bad ones are written apart or fail the job."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.batch import job
from purgatory.spark.batch.job import resolve_files
from purgatory.spark.errors import OutputExists, RejectedRows, SparkError, TableError

OPERATIONS = "op_id,submitted_ms,timeout_ms,keys\no1,0,9,a\no2,0,9,b\n"
EVENTS = "key,at_ms\na,5\n"
BAD_OPERATIONS = OPERATIONS + "o3,0,-9,a\n" * 3
NUMBERS_OUT_OF_RANGE = f"op_id,submitted_ms,timeout_ms,keys,need\no1,0,9,a,{2**40}\n"
BAD_EVENTS = EVENTS + ",5\n" * 4


@pytest.fixture
def files(tmp_path):
    """A function that writes two tables and returns their paths and that of the output."""

    def write(operations=OPERATIONS, events=EVENTS):
        (tmp_path / "operations.csv").write_text(operations)
        (tmp_path / "events.csv").write_text(events)
        return [f"{tmp_path}/{name}" for name in ("operations.csv", "events.csv", "out")]

    return write


@pytest.mark.parametrize(("strict", "made"), [(False, False), (True, True)])
def test_without_bad_rows_there_are_only_outcomes(spark, files, tmp_path, strict, made):
    """The output has only outcomes; it may be an existing empty directory."""
    if made:
        (tmp_path / "out").mkdir()
    assert resolve_files(spark, *files(), strict=strict) == (1, 1, 0, 0)
    assert not (tmp_path / "out" / "_rejected").exists()


def test_rows_are_read_and_checked_once(spark, files, monkeypatch):
    """If all are good: a count of the bad ones took a seventh of the time."""
    monkeypatch.setattr(job, "_write_rejected", None)
    assert resolve_files(spark, *files()) == (1, 1, 0, 0)


def test_bad_rows_of_both_tables_are_written_apart(spark, files, tmp_path):
    """Rejected rows are counted and written with reasons, beside the outcomes."""
    done = resolve_files(spark, *files(BAD_OPERATIONS, BAD_EVENTS))
    assert done == (1, 1, 7, 0)
    assert done.operations == 2
    rejected = spark.read.parquet(f"{tmp_path}/out/_rejected").groupBy("table", "reason").count()
    assert {tuple(row) for row in rejected.collect()} == {
        (
            "operations",
            "column timeout_ms: '-9', expected an integer of 64 bits, 0 or more",
            3,
        ),
        ("events", "column key: nothing, expected non-empty UTF-8 text", 4),
    }
    outcomes = spark.read.parquet(f"{tmp_path}/out")
    assert {("o1", "completed"), ("o2", "expired")} == {
        tuple(row) for row in outcomes.select("op_id", "outcome").collect()
    }


def test_a_number_out_of_range_is_a_bad_row(spark, files):
    """It does not fail the job, in which it is read before it is known to be bad."""
    assert resolve_files(spark, *files(NUMBERS_OUT_OF_RANGE)) == (0, 0, 1, 0)


def test_strict_refuses_bad_rows_and_writes_nothing(spark, files, tmp_path):
    """The error names the first bad rows with their files."""
    with pytest.raises(RejectedRows) as raised:
        resolve_files(spark, *files(BAD_OPERATIONS, BAD_EVENTS), strict=True)
    message = str(raised.value)
    assert f"{tmp_path}/operations.csv: column timeout_ms: '-9'" in message
    assert message.count("; ") == 5
    assert re.match(r"\d+ rows rejected; ", message)
    assert not (tmp_path / "out").exists()


def test_an_output_with_files_is_refused(spark, files, tmp_path):
    """Refused before anything is read, also if Spark would pass over all names in it."""
    arguments = files()
    out = tmp_path / "out"
    out.touch()
    with pytest.raises(OutputExists, match=r"out: is a file; .*new or empty"):
        resolve_files(spark, "/nowhere", *arguments[1:])
    out.unlink()
    for name in ("deep", "_rejected", "_SUCCESS", ".hidden"):
        (out / name).mkdir(parents=True)
        with pytest.raises(OutputExists, match=rf"out: holds {name}; .*new or empty"):
            resolve_files(spark, "/nowhere", *arguments[1:])
        (out / name).rmdir()
    (out / "_temporary").mkdir()  # of a job that was killed
    resolve_files(spark, *arguments)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_table_is_named(spark, files, missing):
    """A missing table is named, and nothing is written."""
    arguments = files()
    arguments[missing] = "/nowhere/x.csv"
    with pytest.raises(TableError, match=r"^/nowhere/x\.csv: not found"):
        resolve_files(spark, *arguments)


def test_damage_further_on_leaves_nothing_behind(spark, files, tmp_path):
    """It fails the job; with the file mended, the same job succeeds."""
    operations, _, out = files()
    events = tmp_path / "events.parquet"
    pq.write_table(pa.table({"key": ["a"], "at_ms": [5]}), events)
    whole = events.read_bytes()
    events.write_bytes(whole[:4] + bytes(20) + whole[24:])
    with pytest.raises(SparkError, match=r"^resolving into .*/out: ") as raised:
        resolve_files(spark, operations, str(events), out)
    assert "\n" not in str(raised.value)
    events.write_bytes(whole)
    assert resolve_files(spark, operations, str(events), out) == (1, 1, 0, 0)


def test_a_failure_to_write_is_reported(spark, files, tmp_path):
    """A failure to write is reported in one line."""
    (tmp_path / "file").touch()
    arguments = [*files()[:2], f"{tmp_path}/file/out"]
    with pytest.raises(SparkError, match=r"resolving into .*file/out: ") as raised:
        resolve_files(spark, *arguments)
    assert "\n" not in str(raised.value)
