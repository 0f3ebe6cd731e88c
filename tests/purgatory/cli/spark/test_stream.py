"""`purgatory spark run`, its progress and its metrics."""

import contextlib
from io import StringIO

import pytest

from purgatory.cli.entry_point import main
from purgatory.cli.spark import stream
from purgatory.printable import counted
from purgatory.trace import Extension, KeyEvent, Operation
from tests.testing import shown_progress
from tests.testing.stream_input import StreamInput

# Several micro-batches each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


def make_feed(path):
    """Write two operations, of which one completes."""
    feed = StreamInput(path)
    feed.put("operations", [Operation("a", "", 0, 9, ("k",)), Operation("b", "", 5, 9, ("x",))])
    feed.put("events", [KeyEvent("k", 9), KeyEvent("q", 50)])
    return feed


def command(feed):
    """Return the command line for a feed."""
    return [
        "spark",
        "run",
        *("--operations", str(feed.path / "operations"), "--events", str(feed.path / "events")),
        *("--out", str(feed.out), "--checkpoint", str(feed.checkpoint)),
    ]


@pytest.fixture
def feed(tmp_path):
    """Two operations, of which one completes."""
    return make_feed(tmp_path)


@pytest.fixture
def arguments(feed):
    """The command line for the feed."""
    return command(feed)


@pytest.fixture(scope="module")
def ended(spark, tmp_path_factory):
    """A stream of several micro-batches that has ended: its stdout, stderr and outcomes."""
    feed = make_feed(tmp_path_factory.mktemp("ended"))
    feed.put("operations", [Operation("late", "", 0, 9, ("k",)), Operation("c", "", 60, 0, ("k",))])
    out, err = StringIO(), StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        given = ["--until-end", "--max-files", "1", "--watermark", "0"]
        assert main([*command(feed), *given]) == 0
    return feed, out.getvalue(), err.getvalue(), feed.outcomes()


def test_until_end_gives_every_operation_its_outcome(ended):
    """Counts and the place of late rows are on stdout, a line for each batch on stderr."""
    feed, out, err, outcomes = ended
    assert out.splitlines() == [
        f"3 operations: 1 completed, 2 expired, 0 pending -> {feed.out}",
        f"1 row late -> {feed.out}/_late",
    ]
    assert "batch 0, event time 1970-01-01 00:00:00.004+00:00, 2 operations, 0 completed" in err
    assert [(o.op_id, o.at_ms) for o in outcomes] == [("a", 9), ("b", 14), ("c", 60)]


def test_a_checkpoint_that_does_not_fit_is_refused_in_one_line(spark, feed, arguments, capsys):
    """The exit code is 2."""
    feed.checkpoint.mkdir()
    (feed.checkpoint / "something").touch()
    assert main([*arguments, "--until-end"]) == 2
    said = capsys.readouterr().err
    assert said == f"purgatory: {feed.checkpoint}: not empty, and not a stream's checkpoint\n"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--watermark", "-1"],
        ["--watermark", "nan"],
        ["--trigger", "soon"],
        ["--max-files", "0"],
        ["--option", "no value"],
        ["--shards", "0"],
        ["--once", "--until-end"],
    ],
)
def test_a_wrong_option_is_named(arguments, capsys, wrong):
    """The option is refused before Spark is started."""
    assert main([*arguments, *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_extensions_held_and_failed_events(spark, feed, arguments, capsys):
    """The outcomes of a batch; the failed operation is counted."""
    feed.put(
        "operations", [Operation("held", "", 20, 0, ("h",)), Operation("f", "", 20, 9, ("y",))]
    )
    feed.put("events", [KeyEvent("h", 15, 5), KeyEvent("y", 21, 0, True)])
    feed.put("extensions", [Extension("b", 14, 6)])
    extensions = str(feed.path / "extensions")
    assert main([*arguments, "--until-end", "--extensions", extensions]) == 0
    assert "4 operations: 2 completed, 1 failed, 1 expired" in capsys.readouterr().out
    found = [(o.op_id, o.outcome, o.at_ms) for o in feed.outcomes()]
    assert found == [
        ("a", "completed", 9),
        ("b", "expired", 20),
        ("f", "failed", 21),
        ("held", "completed", 20),
    ]


def test_how_far_a_compaction_is(ended, spark, capsys, tmp_path, monkeypatch):
    """It says how many files are merged, before and after each; only a terminal shows that."""
    feed, *_ = ended
    files = len(list(feed.out.glob("*.parquet"))) + 1  # the file of the late row
    texts = shown_progress.record(monkeypatch, stream)
    where = ("--checkpoint", str(feed.checkpoint), "--archive", str(tmp_path / "archive"))
    assert main(["spark", "compact", *where]) == 0
    assert texts == ["0 files merged into 0", f"{counted(files, 'file')} merged into 2"]
    said = capsys.readouterr()
    assert said.out == f"{counted(files, 'file')} merged into 2 -> {tmp_path / 'archive'}\n"
