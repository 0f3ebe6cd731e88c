"""The tables of a journal, found in their directory and checked."""

import pytest

from purgatory.spark.errors import RejectedRows, TableError
from purgatory.spark.tables.journal_tables import FARTHEST_MS, count_rejected, read_journal
from purgatory.trace import Operation
from tests.testing.journals import make_outcome, operations_frame, outcomes_frame

HEAD = "op_id,kind,outcome,at_ms,by_key,submitted_ms,deadline_ms,waited_ms,lateness_ms\n"
GOOD = "o1,a,completed,5,k,0,9,5,0\n"


def rows_of(frame):
    """Return all rows as sorted tuples."""
    return sorted(tuple(row) for row in frame.collect())


def test_directory_of_parquet(spark, tmp_path):
    """Both tables are found in their directories, also if they are partitioned by date."""
    rows = [make_outcome(0, 0, 5), make_outcome(1, 0, 9, 7, kind="a")]
    outcomes = outcomes_frame(spark, rows)
    outcomes.selectExpr("*", "date'2026-11-21' day").write.partitionBy("day").parquet(
        str(tmp_path / "outcomes")
    )
    operations = [Operation("o0", "", 0, 5, ("k",)), Operation("o1", "a", 0, 9, ("k", "l"))]
    operations_frame(spark, operations).write.parquet(str(tmp_path / "operations"))
    journal = read_journal(spark, str(tmp_path))
    assert rows_of(journal.outcomes) == sorted(tuple(row) for row in rows)
    assert sorted(row.op_id for row in journal.operations.collect()) == ["o0", "o1"]
    assert count_rejected(journal.rejected) == (0, ())


def test_files_with_suffixes(spark, tmp_path):
    """Tables may be files of any format of a trace; other files are ignored."""
    (tmp_path / "outcomes.csv").write_text(HEAD + GOOD)
    (tmp_path / "operations.jsonl").write_text(
        '{"op_id": "o1", "submitted_ms": 0, "timeout_ms": 9, "keys": ["k"]}\n'
    )
    (tmp_path / "events.csv").write_text("not,looked,at\n")
    journal = read_journal(spark, str(tmp_path))
    assert [row.by_key for row in journal.outcomes.collect()] == ["k"]
    assert [row.keys for row in journal.operations.collect()] == [["k"]]


def test_journals_of_several_servers(spark, tmp_path):
    """A row that two of them have counts once; a server that never was active has none."""
    shared, first, second = (make_outcome(n, 0, 5 + n) for n in range(3))
    for server, rows in (("a_7411", [shared, first]), ("b_7411", [shared, second]), ("c", [])):
        journal = tmp_path / server / "journal"
        for name in ("operations", "outcomes", "events", "extensions"):
            (journal / name).mkdir(parents=True)
        if rows:
            written = outcomes_frame(spark, rows).coalesce(1).write.mode("overwrite")
            written.parquet(str(journal / "outcomes"))
    (tmp_path / "purgatory.log").touch()
    journal = read_journal(spark, str(tmp_path))
    assert rows_of(journal.outcomes) == sorted(tuple(row) for row in (shared, first, second))
    assert journal.operations is None
    assert journal.is_server


def test_journal_of_a_server_without_outcomes(spark, tmp_path):
    """All tables are empty, or there are operations that wait."""
    journal = tmp_path / "a_7411" / "journal"
    for name in ("operations", "outcomes", "events", "extensions"):
        (journal / name).mkdir(parents=True)
    for path in (tmp_path, journal):
        found = read_journal(spark, str(path))
        assert (found.outcomes.count(), found.operations, found.is_server) == (0, None, True)
    operation = '{"op_id": "o", "submitted_ms": 0, "timeout_ms": 9, "keys": ["k"]}\n'
    (journal / "operations" / "1.jsonl").write_text(operation)
    for path in (tmp_path, journal):
        found = read_journal(spark, str(path))
        assert (found.outcomes.count(), found.operations.count()) == (0, 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "jobs.csv",
            (
                "job_id,kind,state,client,tags,submitted_ms,due_ms,began_ms,ended_ms,attempts,"
                "queue_ms,run_ms,worker,error\nj,k,done,c,t|u,0,0,1,2,1,1,1,w,\nj,k,odd,c,,0,0,,2,0,,,,\n"
            ),
        ),
        (
            "jobs.jsonl",
            (
                '{"job_id": "j", "kind": "k", "state": "done", "client": "c", "tags": ["t", "u"], '
                '"submitted_ms": 0, "due_ms": 0, "began_ms": 1, "ended_ms": 2, "attempts": 1, '
                '"queue_ms": 1, "run_ms": 1, "worker": "w"}\n{"job_id": "j"}\n'
            ),
        ),
    ],
)
def test_jobs_as_text(spark, tmp_path, name, text):
    """Their table may have any format of a trace."""
    (tmp_path / name).write_text(text)
    journal = read_journal(spark, str(tmp_path))
    assert [(row.job_id, row.tags, row.run_ms) for row in journal.jobs.collect()] == [
        ("j", ["t", "u"], 1)
    ]
    assert count_rejected(journal.rejected).rows == 1


def test_the_least_number_is_no_time_of_a_job(spark, tmp_path):
    """It is rejected as others are, though 64 bits have no number as far above 0."""
    head = "job_id,kind,state,client,tags,submitted_ms,due_ms,began_ms,ended_ms,attempts,queue_ms,"
    row = f"j,k,done,c,t,0,0,{-(2**63)},2,1,1,1,w,"
    (tmp_path / "jobs.csv").write_text(f"{head}run_ms,worker,error\n{row}\n")
    (found,) = count_rejected(read_journal(spark, str(tmp_path)).rejected).reasons
    assert "column began_ms" in found


@pytest.mark.parametrize("directory", [True, False])
def test_outcomes_alone(spark, tmp_path, directory):
    """A file of outcomes, or a directory of such files, is a journal without operations."""
    (tmp_path / "part-1.csv").write_text(HEAD + GOOD)
    path = tmp_path if directory else tmp_path / "part-1.csv"
    journal = read_journal(spark, str(path))
    assert journal.operations is None
    assert journal.outcomes.count() == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["operations.csv"], "none of outcomes"),
        (
            ["outcomes.csv", "outcomes.jsonl"],
            r"several tables of outcomes: outcomes\.csv, outcomes",
        ),
        (["events.csv"], "not a table of outcomes, it has no column outcome"),
        ([], "no file with a suffix"),
    ],
)
def test_what_is_no_journal(spark, tmp_path, names, said):
    """A directory that is not a journal is refused with the reason."""
    for name in names:
        (tmp_path / name).write_text(HEAD.replace("outcome", "end") + GOOD)
    with pytest.raises(TableError, match=said) as error:
        read_journal(spark, str(tmp_path))
    assert str(tmp_path) in str(error.value)


def test_missing(spark, tmp_path):
    """A missing path is named."""
    with pytest.raises(TableError, match="nowhere: not found"):
        read_journal(spark, str(tmp_path / "nowhere"))


BAD = {
    ",a,completed,5,k,0,9,5,0": "column op_id: nothing",
    "o1,a,done,5,k,0,9,5,0": "column outcome: 'done', expected completed, failed, expired",
    "o1,a,expired,9,k,0,9,9,0": "column by_key: 'k', expected no key, as the operation is expired",
    "o1,a,expired,x,,0,9,9,0": "column at_ms: 'x', expected an integer of 64 bits",
    f"o1,a,expired,9,,{-FARTHEST_MS - 1},9,9,0": "expected a time within",
    "o1,a,expired,9,,0,9,-1,0": "column waited_ms: '-1'",
    "o1,a,expired,9,,10,9,0,0": "column deadline_ms: '9', expected a time not before submitted_ms",
    "o1,a,expired,9,,0,9,9,": "column lateness_ms: nothing",
    "o1,a,expired,9,,0,9,9,-7": "column lateness_ms: '-7', expected a duration",
    f"o1,a,expired,9,,0,9,9,{2**63 - 1}": "expected a duration",
    f"o1,a,completed,0,k,{-FARTHEST_MS},{2**63 - 1},0,0": "expected a timeout within 64 bits",
}


def test_bad_rows(spark, tmp_path):
    """Rows that break a rule are counted and described; the good ones are used."""
    (tmp_path / "outcomes.csv").write_text(HEAD + GOOD + "\n".join(BAD) + "\n")
    journal = read_journal(spark, str(tmp_path))
    assert journal.outcomes.count() == 1
    reasons = [row.reason for row in journal.rejected.collect()]
    for reason, said in zip(reasons, BAD.values(), strict=True):
        assert said in reason
    found = count_rejected(journal.rejected)
    assert (found.rows, len(found.reasons)) == (len(BAD), 5)
    assert found.reasons[0] == f"{tmp_path}/outcomes.csv: {reasons[0]}"
    with pytest.raises(RejectedRows, match=r"11 rows rejected; .*outcomes\.csv: column op_id"):
        count_rejected(journal.rejected, strict=True)
