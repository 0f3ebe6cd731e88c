"""The commands `purgatory spark resolve` and `purgatory spark package`."""

import os
import subprocess
import sys
import zipfile

import pytest

from purgatory.cli.entry_point import main
from purgatory.trace import read_outcomes


@pytest.fixture
def tables(tmp_path):
    """Write two small tables; return them and the output directory as arguments."""
    (tmp_path / "operations.csv").write_text(
        "op_id,submitted_ms,timeout_ms,keys\no1,0,9,a\no2,0,9,b\no3,0,9,\n"
    )
    (tmp_path / "events.jsonl").write_text('{"key":"a","at_ms":9}\n')
    return [f"{tmp_path}/operations.csv", f"{tmp_path}/events.jsonl", "--out", f"{tmp_path}/out"]


def test_resolve_writes_outcomes_and_says_how_many(spark, tables, capsys):
    """The outcomes can be read as a table of a trace."""
    assert main(["spark", "resolve", *tables]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"2 operations: 1 completed, 1 expired -> {tables[-1]}",
        f"1 row rejected -> {tables[-1]}/_rejected",
    ]
    with read_outcomes(tables[-1]) as rows:
        assert {(row.op_id, row.outcome, row.at_ms) for row in rows} == {
            ("o1", "completed", 9),
            ("o2", "expired", 9),
        }


def test_extensions_and_failures_are_told(spark, tables, tmp_path, capsys):
    """A bad row of any table is rejected."""
    (tmp_path / "events.jsonl").write_text(
        '{"key":"a","at_ms":9,"failed":true}\n{"key":"b","at_ms":19,"hold_ms":-1}\n'
        '{"key":"b","at_ms":18}\n{"key":"b","at_ms":18,"failed":0}\n'
    )
    (tmp_path / "extensions.csv").write_text("op_id,at_ms,timeout_ms\no2,9,9\no2,10,-1\n")
    given = [*tables, "--extensions", f"{tmp_path}/extensions.csv"]
    assert main(["spark", "resolve", *given]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"2 operations: 1 completed, 1 failed, 0 expired -> {tables[-1]}",
        f"4 rows rejected -> {tables[-1]}/_rejected",
    ]
    with read_outcomes(tables[-1]) as rows:
        assert {(row.op_id, row.outcome, row.at_ms, row.deadline_ms) for row in rows} == {
            ("o1", "failed", 9, 9),
            ("o2", "completed", 18, 18),
        }


def test_strict_fails_in_one_line(spark, tables, capsys):
    """The exit code is 2."""
    assert main(["spark", "resolve", *tables, "--strict"]) == 2
    error = capsys.readouterr().err
    assert "column keys: nothing, expected a list of at least one key" in error
    assert error.count("\n") == 1


def test_a_missing_file_is_named_in_one_line(spark, tables, capsys):
    """The name is as it was given."""
    assert main(["spark", "resolve", "/none.csv", *tables[1:]]) == 2
    assert capsys.readouterr().err == "purgatory: /none.csv: not found\n"


@pytest.mark.parametrize("cores", ["0", "-1", "many"])
def test_cores_are_one_or_more(tables, capsys, cores):
    """Other values are refused before Spark is started."""
    assert main(["spark", "resolve", *tables, "--cores", cores]) == 2
    assert "--cores" in capsys.readouterr().err


def test_without_spark_the_error_says_what_to_install(tables):
    """The command line works without it, and names the extra."""
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from purgatory.cli import main\n"
        f"sys.exit(main(['spark', 'resolve', *{tables}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "purgatory: this needs pyspark: pip install 'timer-purgatory[spark]'\n"


def test_package_writes_the_zip_and_the_program(tmp_path, capsys):
    """The program runs from the zip alone; the same packages make the same zip."""
    assert main(["spark", "package", f"{tmp_path}/a"]) == 0
    assert main(["spark", "package", f"{tmp_path}/b"]) == 0
    first, second = (tmp_path / name / "purgatory.zip" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert {"purgatory/spark/batch/resolve.py", "timingwheel/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert f"--py-files {first} {first.parent}/purgatory_main.py" in capsys.readouterr().out
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-I",
            "-c",
            RUN_FROM_ZIP,
            str(first),
            f"{tmp_path}/a/purgatory_main.py",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "OPERATIONS EVENTS" in done.stdout


# As spark-submit runs it; -S -I keep installed packages out.
RUN_FROM_ZIP = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
program = sys.argv[2]
sys.argv[1:] = ["resolve", "--help"]
runpy.run_path(program, run_name="__main__")
"""
