"""The command line: every error is one line and exit code 2, without a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from purgatory.cli import entry_point as cli
from purgatory.trace import KeyEvent, Operation, read_events, write_events, write_operations

COMMAND = [sys.executable, "-m", "purgatory"]


@pytest.fixture
def events(tmp_path):
    """A table of two events."""
    path = tmp_path / "events.csv"
    with write_events(path) as out:
        out.write(KeyEvent("k", 1))
        out.write(KeyEvent("l", 2))
    return path


def is_one_line(text):
    return text.startswith("purgatory: ") and text.endswith("\n") and text.count("\n") == 1


# The frame


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "COMMAND"),
        (["bogus"], "'bogus'"),
        (["--bogus", "trace"], "COMMAND"),
        (["trace"], "trace: "),
        (["trace", "bogus"], "'bogus'"),
        (["trace", "flights"], "trace flights: the following arguments are required: DIR"),
        (["trace", "check"], "FILE"),
        (["trace", "convert", "one"], "OUT"),
        (["trace", "flights", "a", "b\nc"], "unrecognized arguments: b c"),
        (["trace", "check", "no\nsuch.csv"], "no such.csv: No such file or directory"),
        (["trace", "check", "\udcff.csv"], ".csv: No such file"),
        (["trace", "check", "nul\0.csv"], "null"),
        (["trace", "check", __file__], "suffix must be one of"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(run, argv, told):
    """Wrong usage and wrong input alike; nothing on stdout."""
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert told in err


@pytest.mark.parametrize("argv", [["--help"], ["trace", "--help"], ["trace", "convert", "-h"]])
def test_help_is_printed_with_an_example(run, argv):
    """On stdout, exit code 0."""
    code, out, err = run(*argv)
    assert (code, err) == (0, "")
    assert "example" in out
    assert "purgatory trace" in out


def test_every_command_is_in_the_help(run):
    """The help lists the commands and explains the exit codes."""
    _, out, _ = run("--help")
    assert "exit codes" in out
    assert "trace " in out
    _, out, _ = run("trace", "--help")
    for command in ("flights", "check", "convert"):
        assert command in out


def test_the_version_is_printed(run):
    """It is that of the distribution."""
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("purgatory ")


def with_command(monkeypatch, command):
    """Add a command `go`."""

    def add_parser(subparsers):
        subparsers.add_parser("go").set_defaults(run=command)

    monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, add_parser))


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory"),
        (FileNotFoundError(2, "No such file", "x"), 2, "x: No such file"),
        (OSError("odd"), 2, "odd"),
        (KeyError("a\nb"), 2, "unexpected error"),
        (RuntimeError("two\nlines"), 2, "two"),
    ],
)
def test_whatever_a_command_raises_is_one_line(run, monkeypatch, error, code, told):
    """An interrupt has its own exit code; a defect is reported as unexpected."""

    def fail(arguments):
        raise error

    with_command(monkeypatch, fail)
    found, out, err = run("go")
    assert (found, out) == (code, "")
    assert is_one_line(err)
    assert told in err


def test_a_traceback_can_be_had(run, monkeypatch):
    """PURGATORY_TRACEBACK=1 lets the error through."""

    def fail(arguments):
        raise RuntimeError("defect")

    with_command(monkeypatch, fail)
    monkeypatch.setenv("PURGATORY_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="defect"):
        run("go")


def test_the_exit_code_is_the_commands(run, monkeypatch):
    """It is what `run` returned."""
    with_command(monkeypatch, lambda arguments: 7)
    assert run("go")[0] == 7


def test_a_reader_that_goes_away_is_no_error(events):
    """`purgatory ... | head` ends silently, with the exit code of a broken pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, "trace", "check", events],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_reported(events, unbuffered):
    """On writing and at the last flush."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "trace", "check", events],
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_any_file_name_can_be_printed(tmp_path):
    """Bytes that are not UTF-8, or not in the terminal's encoding, are escaped."""
    path = tmp_path / "\udcff-\u00e9.csv"
    with write_events(path):
        pass
    done = subprocess.run(
        [*COMMAND, "trace", "check", path],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\udcff-\\xe9.csv: events, 0 rows" in done.stdout


def test_closed_streams_change_no_exit_code(events):
    """Some supervisors start programs without stdout or stderr."""
    command = " ".join([*COMMAND, "trace", "check"])
    for words, code in ((f"{events} >&-", 0), (f"{events}.gone 2>&-", 2), ("x.y >&- 2>&-", 2)):
        done = subprocess.run(
            f"{command} {words}", shell=True, capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


INTERRUPTED = """
import sys
from purgatory.cli import entry_point as cli
from purgatory.trace import KeyEvent, write_events

def work(arguments):
    with write_events(sys.argv[1]) as out:
        out.write(KeyEvent("k", 1))
        print("working", flush=True)
        sys.stdin.read()

cli.COMMANDS = (lambda subparsers: subparsers.add_parser("go").set_defaults(run=work),)
sys.exit(cli.main(["go"]))
"""


def test_ctrl_c_ends_with_130(tmp_path):
    """An interrupted command prints one line and leaves no half file."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "events.csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert is_one_line(err)
    assert list(tmp_path.iterdir()) == []


# purgatory trace


def test_check_describes_sound_tables(run, tmp_path, events):
    """One line for each file: the table, its rows and their order."""
    operations = tmp_path / "ops.jsonl.gz"
    with write_operations(operations) as out:
        out.write(Operation("a", "", 5, 1, ("k",)))
        out.write(Operation("b", "", 4, 1, ("k",)))
    code, out, err = run("trace", "check", events, operations)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{events}: events, 2 rows, 0 bad, in time order",
        f"{operations}: operations, 2 rows, 0 bad, not in time order at {operations}, line 2",
    ]


def test_check_names_the_first_bad_rows(run, tmp_path):
    """All are counted, five are listed, and the exit code is 1."""
    path = tmp_path / "events.csv"
    path.write_text("key,at_ms\n" + "k,1\nk,x\n" * 7)
    code, out, err = run("trace", "check", path)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}: events, 7 rows, 7 bad, in time order"
    assert len(lines) == 6
    assert f"{path}, line 3, column at_ms: 'x', expected an integer" in lines[1]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv.gz"])
def test_convert_copies_a_table(run, tmp_path, events, suffix):
    """Into any format; prints the number of rows."""
    target = tmp_path / f"copy.{suffix}"
    assert run("trace", "convert", events, target) == (0, f"{target}: events, 2 rows\n", "")
    assert list(read_events(target)) == list(read_events(events))


def test_convert_stops_at_bad_rows_or_skips_them(run, tmp_path):
    """By default there is no output file; with --skip-bad the good rows and a count."""
    path, target = tmp_path / "events.csv", tmp_path / "copy.jsonl"
    path.write_text("key,at_ms\nk,1\nk,x\nk,2\nk,y\n")
    code, out, err = run("trace", "convert", path, target)
    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert "line 3" in err
    assert "line 5" in err
    assert not target.exists()
    code, out, _ = run("trace", "convert", "--skip-bad", path, target)
    assert (code, out) == (0, f"{target}: events, 2 rows, 2 bad rows skipped\n")
    assert list(read_events(target)) == [KeyEvent("k", 1), KeyEvent("k", 2)]


def test_convert_may_write_over_its_input(run, events):
    """The file is replaced after all of it was read."""
    before = list(read_events(events))
    assert run("trace", "convert", events, events)[0] == 0
    assert list(read_events(events)) == before


def test_flights_prints_one_line_of_counts(run, tmp_path, monkeypatch):
    """The line has the directory and the numbers of operations and events."""
    monkeypatch.setattr("purgatory.trace.flights.read_flights", lambda: iter(()))
    folder = tmp_path / "demo"
    assert run("trace", "flights", folder) == (0, f"{folder}: 0 operations, 0 events\n", "")
    assert sorted(file.name for file in folder.iterdir()) == [
        "events.parquet",
        "operations.parquet",
    ]
