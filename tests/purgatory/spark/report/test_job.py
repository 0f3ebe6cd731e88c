"""`purgatory spark report`, from a journal on disk to a page."""

import argparse
import os
import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from purgatory.cli.entry_point import main
from purgatory.cli.spark.batch import add_report
from purgatory.spark.errors import RejectedRows, SparkError
from purgatory.spark.report import tables
from purgatory.spark.report.content import LimitEffect, TimeLimitEffect
from purgatory.spark.report.job import (
    DataDirectory,
    OutputFile,
    make_report_options,
    report_journal,
    settings_for,
)
from purgatory.spark.report.jobs import job_tables
from purgatory.spark.session import SHORT_WORK
from tests.testing import reports
from tests.testing.job_journals import job_report_of, mixed_jobs
from tests.testing.journals import outcomes_frame, random_outcomes

PROGRESS = re.compile(r" *\d+\.\d s  ")
ONE_WHEEL = make_report_options([0.9], [10], [20])


@pytest.fixture(scope="module")
def journal(spark, tmp_path_factory):
    """A journal on disk: good outcomes, a bad one, no operations."""
    path = tmp_path_factory.mktemp("journal")
    outcomes_frame(spark, random_outcomes(7, 60)).write.parquet(str(path / "outcomes"))
    bad = random_outcomes(8, 1)[0]._replace(outcome="done", by_key=None)
    outcomes_frame(spark, [bad]).write.mode("append").parquet(str(path / "outcomes"))
    return str(path)


def test_tables_and_page(spark, journal, tmp_path):
    """Terminal and page have the tables, and say what is missing and left out."""
    out = StringIO()
    page = tmp_path / "report.html"
    console = Console(file=out, width=200)
    steps = []
    report = report_journal(
        spark, journal, ONE_WHEEL, OutputFile(page), console=console, progress=steps.append
    )
    assert report.operations == 60
    for text in (out.getvalue(), page.read_text(encoding="utf-8")):
        assert "because they break a rule: 1." in text
        assert "column outcome" in text
        assert "There is no table of operations" in text
        assert "Kaplan" in text or "Timeouts suggested" in text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert steps[0] == f"looking at {journal}"
    assert steps[-1] == "drawing"


def test_strict(spark, journal):
    """With `strict`, a bad row raises."""
    with pytest.raises(RejectedRows, match="1 row rejected"):
        report_journal(spark, journal, ONE_WHEEL, strict=True, console=Console(file=StringIO()))


def test_command_line(spark, journal, tmp_path, capsys):
    """The command uses the active session, and reports errors in one line."""
    page = tmp_path / "r.html"
    command = ["spark", "report", journal, "--html", str(page), "--share", "0.5", "--tick-ms", "10"]
    data = tmp_path / "data"
    command += ["--wheel-size", "20", "--against", journal, "--export", str(data)]
    assert main(command) == 0
    assert page.exists()
    said = capsys.readouterr()
    steps = said.err.splitlines()
    assert steps[0].endswith(" s  starting Spark")
    assert len(steps) == 1 + 2 * 5 + 2  # of each journal; then wheels and drawing
    assert "Nothing changed notably" in said.out
    assert said.out.count("because they break a rule") == 2
    assert {file.stem for file in data.iterdir()} == {
        *("kinds", "timeouts", "curves", "ends-by-kind", "week", "hot-keys", "wheels", "changes")
    }
    assert (data / "week.csv").read_text().startswith("weekday,hour,operations,expired\n3,0,60,")
    for wrong, said in (
        (["--share", "1.5"], "share is 1.5; expected more than 0 and at most 1"),
        (["--wheel-size", "1"], "wheel_size is 1; expected 2 to 65536"),
        (["--html", str(tmp_path / "no" / "r.html")], "r.html: cannot be written: No such file"),
        (["--html", str(tmp_path)], "is a directory; expected the name of a file"),
        (["--export", str(page)], "r.html: cannot be made: File exists"),
        (["--against", str(tmp_path / "no")], "no: not found"),
    ):
        assert main(["spark", "report", journal, *wrong]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert [line for line in error.splitlines() if not PROGRESS.match(line)] == [
            error.splitlines()[-1]
        ]


def test_page_is_there_whole_or_not_at_all(tmp_path):
    """A page that cannot be written leaves no file, and the old page stays."""
    page = tmp_path / "r.html"
    page.write_text("old")
    file = OutputFile(str(page))
    assert page.read_text() == "old"
    with pytest.raises(UnicodeEncodeError):
        file.write("\ud800")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("r.html", "old")]
    file.write("new")
    assert page.read_text() == "new"


def test_page_goes_through_a_link_and_keeps_the_mode(tmp_path):
    """As the writer of a trace does."""
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    OutputFile(link).write("new")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("new", 0o600)
    dangling = tmp_path / "dangling.html"
    dangling.symlink_to(tmp_path / "later.html")
    OutputFile(dangling).write("new")
    assert dangling.is_symlink()


def test_page_replaces_no_device(tmp_path):
    """A named pipe stands for a device; one may also come while the job works."""
    pipe, page = tmp_path / "pipe", tmp_path / "page.html"
    os.mkfifo(pipe)
    for path in (pipe, os.devnull):
        with pytest.raises(SparkError, match="not a regular file"):
            OutputFile(path)
    file = OutputFile(page)
    os.mkfifo(page)
    with pytest.raises(SparkError, match=r"page\.html: not a regular file"):
        file.write("new")
    (tmp_path / "week.csv").symlink_to(pipe)
    with pytest.raises(SparkError, match=r"week\.csv: not a regular file"):
        DataDirectory(str(tmp_path))
    assert pipe.is_fifo()
    assert page.is_fifo()


def test_empty_paths():
    """An empty path is an unset variable of a shell, not the current directory."""
    with pytest.raises(SparkError, match="the path is empty"):
        OutputFile("")
    with pytest.raises(SparkError, match="is empty"):
        DataDirectory("")
    for path in (".", "/"):
        with pytest.raises(SparkError, match="is a directory"):
            OutputFile(path)


def test_data_that_cannot_be_written(tmp_path):
    """A directory that cannot be made or written is reported before the work."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SparkError, match="file: cannot be made: File exists"):
        DataDirectory(str(tmp_path / "file"))


def test_data_of_an_earlier_report(tmp_path, monkeypatch):
    """Files of figures that the report lacks are removed; other files stay."""
    monkeypatch.chdir(tmp_path)
    jobs = replace(
        job_report_of(mixed_jobs(400)),
        limits=(LimitEffect(reports.ALL, 1, 0.5, 9, 9),),
        time_limits=(TimeLimitEffect(reports.ALL, 9, 0, 9),),
    )
    DataDirectory("data").write(reports.report("a", jobs=jobs))
    data = tmp_path / "data"
    assert {file.stem for file in data.iterdir()} == {*tables.FIGURES, *job_tables.FIGURES}
    (data / "own.csv").write_text("mine")
    (data / "own.csv").chmod(0o400)
    DataDirectory("data").write(reports.report("a", changes=(), wheels=()))
    assert {file.stem for file in data.iterdir()} == {"own", *tables.FIGURES} - {
        *("changes", "wheels")
    }


def test_a_relative_directory_of_data(tmp_path, monkeypatch):
    """It may have the data of an earlier report; a file that is read-only is reported at once."""
    monkeypatch.chdir(tmp_path)
    former = tmp_path / "data" / "kinds.csv"
    former.parent.mkdir()
    former.write_text("former")
    DataDirectory("data")
    assert former.read_text() == "former"
    former.chmod(0o444)
    with pytest.raises(SparkError, match=r"data/kinds\.csv: is read-only"):
        DataDirectory("data")


def test_settings_follow_the_size(tmp_path):
    """Small journals of this machine get settings for short work; large and remote ones do not."""
    small, large = tmp_path / "small", tmp_path / "large" / "outcomes"
    small.write_bytes(b"PAR1")
    large.parent.mkdir()
    with large.open("wb") as file:
        file.truncate(2**30)  # a hole: takes no room on the disk
    assert settings_for(str(small), None) == SHORT_WORK
    for paths in ((str(large.parent),), (str(small), str(large)), ("hdfs://node/journal",)):
        assert settings_for(*paths) == {}


def test_bad_options():
    """An impossible option raises with one line."""
    with pytest.raises(SparkError, match="tick_ms is 0"):
        make_report_options(None, [0], None)


def test_help_needs_no_spark():
    """The command's parser is made without Spark, so that help is quick."""
    parser = argparse.ArgumentParser()
    add_report(parser.add_subparsers())
    arguments = parser.parse_args(["report", "journal", "--share", "0.5", "0.9"])
    assert (arguments.journal, arguments.share, arguments.html) == ("journal", [0.5, 0.9], None)
