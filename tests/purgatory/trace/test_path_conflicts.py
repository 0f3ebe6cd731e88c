"""Outputs that would replace an input or lie in one are refused, by what they are."""

import os

import pytest

from purgatory.cli import main
from purgatory.trace import KeyEvent, TraceError, write_events
from purgatory.trace.path_conflicts import PathConflict, check_outputs

OPERATIONS = "op_id,kind,submitted_ms,timeout_ms,keys\no1,a,1000,500,k\n"
EVENTS = "key,at_ms\nk,1500\n"


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A directory with two tables, a directory of one, and links to them; it is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.csv").write_text(OPERATIONS)
    (tmp_path / "events.csv").write_text(EVENTS)
    parts = tmp_path / "parts"
    (parts / "date=2026-11-26").mkdir(parents=True)
    (parts / "date=2026-11-26" / "1.csv").write_text(EVENTS)
    (tmp_path / "link.csv").symlink_to("ops.csv")
    os.link("ops.csv", "hard.csv")
    (tmp_path / "linked").symlink_to("parts")
    os.link(parts / "date=2026-11-26" / "1.csv", "hard_part.csv")
    return tmp_path


def contents(directory):
    """Return the names and texts of all files below a directory."""
    return {path: path.read_text() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "out",
    [
        "ops.csv",
        "./ops.csv",
        "parts/../ops.csv",
        "link.csv",
        "hard.csv",
        "parts/new.csv",
        "linked/new.parquet",
        "parts/date=2026-11-26/new.csv",
        "parts/date=2026-11-26/1.csv",
        "hard_part.csv",
    ],
)
def test_a_replay_does_not_replace_its_inputs(inputs, capsys, out):
    """Through names, links, hard links and directories; nothing has changed then."""
    before = contents(inputs)
    assert main(["replay", "ops.csv", "parts", "--outcomes", out]) == 2
    assert f"purgatory: --outcomes {out}: " in capsys.readouterr().err
    assert contents(inputs) == before


def test_extensions_are_inputs(inputs, capsys):
    """As the two other tables are."""
    (inputs / "ext.csv").write_text("op_id,at_ms,timeout_ms\n")
    command = ["replay", "ops.csv", "events.csv", "--extensions", "ext.csv"]
    assert main([*command, "--outcomes", "ext.csv"]) == 2
    assert "would replace the input ext.csv" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["events.csv", "link_out.csv", "parts/events.jsonl"])
def test_a_conversion_does_not_replace_its_input(inputs, target):
    """The file itself, a link to it, and a file in the directory that is read."""
    (inputs / "link_out.csv").symlink_to("events.csv")
    source = "parts" if target.startswith("parts") else "events.csv"
    before = contents(inputs)
    assert main(["trace", "convert", source, target]) == 2
    assert contents(inputs) == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_read_only_file_is_not_replaced(inputs, capsys, name):
    """By a command or a writer, though its directory would allow the rename."""
    out = inputs / name
    out.write_text("precious")
    out.chmod(0o444)
    assert main(["replay", "ops.csv", "events.csv", "--outcomes", name]) == 2
    assert "is read-only (mode 0444)" in capsys.readouterr().err
    with pytest.raises(TraceError, match=r"read-only \(mode 0444\)"), write_events(out) as rows:
        rows.write(KeyEvent("k", 1))
    assert out.read_text() == "precious"


def test_other_places_are_free(inputs):
    """A file beside the inputs, an existing one too, is written."""
    (inputs / "out.csv").write_text("old")
    assert main(["replay", "ops.csv", "parts", "--outcomes", "out.csv"]) == 0
    assert (inputs / "out.csv").read_text().startswith("op_id,kind,outcome")


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["spark", "resolve", "ops.csv", "parts"], "--out"),
        (["spark", "report", "parts", "--html", "other.html"], "--export"),
        (["spark", "report", "ops.csv", "--against", "parts"], "--html"),
        (
            ["spark", "run", "--operations", "ops.csv", "--events", "parts", "--checkpoint", "cp"],
            "--out",
        ),
        (
            ["spark", "run", "--operations", "ops.csv", "--events", "parts", "--out", "out"],
            "--checkpoint",
        ),
        (["spark", "compact", "--checkpoint", "parts"], "--archive"),
        (["restore", "parts"], "--data-dir"),
    ],
)
@pytest.mark.parametrize("place", ["parts", "linked", "parts/deep/new", "linked/new"])
def test_every_command_that_reads_and_writes(inputs, capsys, command, flag, place):
    """The output is an input directory or lies in one; refused before Spark or a file is opened."""
    before = contents(inputs)
    assert main([*command, flag, place]) == 2
    assert f"purgatory: {flag} {place}: " in capsys.readouterr().err
    assert contents(inputs) == before


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "", "events.csv"],
        ["replay", "ops.csv", "events.csv", "--outcomes", ""],
        ["trace", "check", ""],
        ["trace", "convert", "", "out.csv"],
        ["trace", "convert", "ops.csv", ""],
        ["trace", "flights", ""],
        ["spark", "package", ""],
        ["spark", "resolve", "ops.csv", "", "--out", "out"],
        ["spark", "resolve", "ops.csv", "events.csv", "--out", ""],
        ["spark", "report", "parts", "--html", ""],
        ["spark", "report", "parts", "--export", ""],
        ["spark", "report", ""],
        ["spark", "report", "parts", "--against", ""],
    ],
)
def test_an_empty_path_is_not_the_current_directory(inputs, capsys, command):
    """A shell makes it of an unset variable; nothing is read or written then."""
    before = contents(inputs)
    assert main(command) == 2
    assert "is empty" in capsys.readouterr().err
    assert contents(inputs) == before


def test_a_backup_lies_outside_of_the_journal(inputs, capsys):
    """The journal would be read with the backup in it; beside it there is room."""
    (inputs / "data" / "journal").mkdir(parents=True)
    command = ["backup", "--data-dir", "data"]
    assert main([*command, "data/journal/backup"]) == 2
    assert "DIR data/journal/backup: lies in the input" in capsys.readouterr().err
    assert main([*command, "data/backup"]) == 2
    assert "there is no such database" in capsys.readouterr().err


def test_a_report_may_lie_beside_the_tables_of_a_journal(inputs):
    """In its directory, not in a table; an export does not replace a table of that name."""
    journal = inputs / "journal"
    (journal / "outcomes").mkdir(parents=True)
    (journal / "operations.csv").write_text(OPERATIONS)
    command = ["spark", "report", "journal", "--remote", "no", "--wheel-size", "0", "--html"]
    assert main([*command, "journal/outcomes/page.html"]) != 0
    check_outputs({"--html": journal / "page.html"}, [journal / "outcomes"])
    with pytest.raises(PathConflict, match="would replace"):
        check_outputs({"--export": journal}, [journal / "operations.csv"])


@pytest.mark.parametrize(
    ("output", "given", "refused"),
    [
        ("hdfs://h/a/b", "hdfs://h/a", True),
        ("hdfs://h/a", "hdfs://h/a/", True),
        ("hdfs://h/ab", "hdfs://h/a", False),
        ("s3a://h/a/b", "hdfs://h/a", False),
        ("file:{here}/parts/new", "parts", True),
        ("file://{here}/pa%72ts", "parts", True),
        ("parts/new", "file:{here}/parts", True),
        ("ops.csv", "op*.csv", True),
        ("[a].csv", "[a].csv", True),
        ("a:b", "a:b", True),
        ("nowhere/new", "nowhere", True),
        ("nowhere", "nowhere/new", False),
    ],
)
def test_addresses_and_patterns(inputs, output, given, refused):
    """URIs are compared as the paths that they are, others by name; patterns by what matches."""
    (inputs / "[a].csv").write_text(EVENTS)
    (inputs / "a:b").write_text(EVENTS)
    output, given = (text.format(here=inputs) for text in (output, given))
    try:
        check_outputs({"OUT": output, "other": None}, [given, None])
    except PathConflict:
        assert refused
    else:
        assert not refused
