"""`purgatory replay` as a user runs it: a process, its output, its exit code."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from purgatory.cli import replay
from purgatory.cli.entry_point import PIPE_CLOSED, main
from purgatory.trace import KeyEvent, Operation, read_outcomes, write_events, write_operations
from tests.testing import shown_progress
from tests.testing.environments import without_pandas
from tests.testing.purgatory_harness import free_port

PATIENCE = 60


@pytest.fixture
def trace(tmp_path):
    """A hundred operations a second apart; every third never completes."""
    operations, events = tmp_path / "operations.csv", tmp_path / "events.jsonl.gz"
    with write_operations(operations) as writer:
        for number in range(100):
            kind = ("slow", "quick")[number % 2]
            writer.write(Operation(f"o{number}", kind, number * 1000, 5000, (f"k{number}",)))
    with write_events(events) as writer:
        for number in range(100):
            if number % 3:
                writer.write(KeyEvent(f"k{number}", number * 1000 + 400))
    return str(operations), str(events)


def command(*arguments):
    """Return the command line of a replay."""
    return [sys.executable, "-m", "purgatory", "replay", *map(str, arguments)]


@pytest.fixture
def run(capsys):
    """Run a replay to its end, in this process."""

    def run(*arguments):
        code = main(["replay", *map(str, arguments)])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def test_how_far_it_is(trace, monkeypatch, capsys):
    """The rows and the waiting operations; only a terminal shows that."""
    texts = shown_progress.record(monkeypatch, replay)
    assert main(["replay", *trace]) == 0
    assert re.fullmatch(r"0 rows, 0 waiting, \d+ s", texts[0])
    assert re.fullmatch(r"166 rows, 0 waiting, \d+ s", texts[1])
    assert capsys.readouterr().err == ""


def row(output, kind):
    """Return the cells of one row of the table."""
    line = next(line for line in output.splitlines() if re.search(rf"[│|]\s*{kind}\s", line))
    return [cell.strip() for cell in re.split("[│|]", line)[1:-1]]


def scrape(port):
    """Return the metrics as text; None while they are not served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            return page.read().decode()
    except OSError:
        return None


def counter(page, outcome):
    """Return the count of one outcome in scraped metrics."""
    found = re.search(
        rf'purgatory_operations_total\{{name="replay",outcome="{outcome}"\}} (\S+)', page
    )
    return float(found[1])


def test_table(trace):
    """A row for each kind and one for all, with counts, share and waits."""
    done = subprocess.run(command(*trace), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert row(done.stdout, "all") == ["all", "100", "66", "34", "66.0%", "400 ms", "5.0 s"]
    assert row(done.stdout, "slow")[:4] == ["slow", "50", "33", "17"]
    assert "100 operations, 100 outcomes" in done.stdout


def test_the_directory_of_several_servers_stands_for_all_of_their_journals(run, tmp_path):
    """What two of them have counts once."""
    for server, numbers in (("a_7411", (0, 1)), ("b_7411", (1, 2))):
        journal = tmp_path / server / "journal"
        for table in ("operations", "events"):
            (journal / table).mkdir(parents=True)
        with write_operations(journal / "operations" / "part.csv") as writer:
            for n in numbers:
                writer.write(Operation(f"o{n}", "", n * 1000, 5000, (f"k{n}",)))
        with write_events(journal / "events" / "part.csv") as writer:
            for n in numbers:
                writer.write(KeyEvent(f"k{n}", n * 1000 + 400))
    for options in ([], ["--sort"]):
        done = run(tmp_path, tmp_path, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert row(done.stdout, "all")[1:4] == ["3", "3", "0"]


@pytest.mark.parametrize("of_several", [False, True])
def test_a_journal_without_events_is_replayed(run, tmp_path, of_several):
    """Its server had none yet, and made the directory."""
    journal = tmp_path / "a_7411" / "journal"
    for table in ("operations", "events", "extensions"):
        (journal / table).mkdir(parents=True)
    with write_operations(journal / "operations" / "part.csv") as writer:
        writer.write(Operation("o", "", 0, 5, ("k",)))
    tables = [tmp_path if of_several else journal / name for name in ("operations", "events")]
    extensions = tmp_path if of_several else journal / "extensions"
    done = run(*tables, "--extensions", extensions)
    assert (done.returncode, done.stderr) == (0, "")
    assert row(done.stdout, "all")[1:4] == ["1", "0", "1"]


def test_real_time_gives_the_same_table(run, trace):
    """The outcomes are the same at any speed."""
    assert row(run(*trace, "--speed", 1e5).stdout, "all") == row(run(*trace).stdout, "all")


def test_outcomes_file(run, trace, tmp_path):
    """`--outcomes` writes them as a table."""
    target = tmp_path / "outcomes.parquet"
    assert run(*trace, "--outcomes", target).returncode == 0
    rows = list(read_outcomes(target))
    assert len(rows) == 100
    assert {row.outcome for row in rows} == {"completed", "expired"}


def test_extensions_and_failures(run, trace, tmp_path):
    """`--extensions` is read as the other tables are; failures get a column of their own."""
    events, extensions = tmp_path / "events.csv", tmp_path / "extensions.csv"
    events.write_text("key,at_ms,failed\nk1,1400,true\nk0,9000,\n")
    extensions.write_text("op_id,at_ms,timeout_ms\no0,5000,4000\no1,5,-1\n")
    refused = run(trace[0], events, "--extensions", extensions)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "extensions.csv, line 3, column timeout_ms: -1" in refused.stderr
    done = run(trace[0], events, "--extensions", extensions, "--skip-bad")
    assert row(done.stdout, "all")[:5] == ["all", "100", "1", "1", "98"]
    assert "failed" in done.stdout
    assert "100 operations, 100 outcomes" in done.stdout


def test_out_of_order_is_refused_and_sorted_on_demand(run, trace, tmp_path):
    """The error names the row; `--sort` sorts first."""
    events = tmp_path / "events.csv"
    events.write_text("key,at_ms\nk1,1400\nk0,400\n")
    refused = run(trace[0], events)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "events.csv, line 3" in refused.stderr
    assert row(run(trace[0], events, "--sort").stdout, "all")[2] == "2"


def test_bad_rows_are_refused_and_skipped_on_demand(run, trace, tmp_path):
    """The error names the row; `--skip-bad` counts it and goes on."""
    events = tmp_path / "events.csv"
    events.write_text("key,at_ms\nk0,400\nk1,soon\n")
    refused = run(trace[0], events)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "line 3" in refused.stderr
    assert "soon" in refused.stderr
    skipped = run(trace[0], events, "--skip-bad")
    assert skipped.returncode == 0
    assert "skipped 1 bad row of" in skipped.stdout


def test_a_row_far_from_1970_is_a_bad_row(run, trace, tmp_path):
    """Its time is beyond what a replay counts, and the rest is replayed without the row."""
    events = tmp_path / "events.csv"
    events.write_text(f"key,at_ms\nk0,400\nk1,{2**60 + 1}\n")
    refused = run(trace[0], events)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert (
        "events.csv, line 3, column at_ms: 1152921504606846977, expected a time" in refused.stderr
    )
    skipped = run(trace[0], events, "--skip-bad")
    assert (skipped.returncode, row(skipped.stdout, "all")[:3]) == (0, ["all", "100", "1"])
    assert "skipped 1 bad row of" in skipped.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["missing.parquet", "missing.parquet"], "missing.parquet"),
        (["a.csv"], "EVENTS"),
        (["--speed", "-1"], "--speed"),
        (["--speed", "fast"], "--speed"),
        (["--outcomes", "/nowhere/o.parquet"], "/nowhere"),
        (["--outcomes", "o.txt"], "o.txt"),
        (["--metrics-port", "99999999"], "99999999"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, trace, arguments, named):
    """There is no traceback."""
    done = run(*arguments, *(trace if arguments[0].startswith("-") else ()))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


def test_port_in_use(run, trace):
    """The error names the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(*trace, "--metrics-port", port)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert str(port) in done.stderr


def test_metrics_end_equal_to_the_table(trace):
    """They are served until a scrape has seen the counters of the table."""
    port = free_port()
    arguments = command(*trace, "--speed", 50, "--metrics-port", port, "--hold", PATIENCE)
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, env=without_pandas()
    ) as process:
        pages = []
        while process.poll() is None:
            if page := scrape(port):
                pages.append(page)
        output = process.stdout.read()
    assert process.returncode == 0
    seen = [counter(page, "completed") for page in pages]
    assert seen == sorted(seen)
    assert (counter(pages[-1], "completed"), counter(pages[-1], "expired")) == (66, 34)
    assert row(output, "all")[2:4] == ["66", "34"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_prints_what_was_done(trace, tmp_path, number):
    """Counters move; a signal prints the table so far, completes the outcomes, and is the code."""
    target, port = tmp_path / "outcomes.csv", free_port()
    # Half a minute: also a machine that stalls sees some of it, and interrupts the rest.
    arguments = command(*trace, "--speed", 3, "--outcomes", target, "--metrics-port", port)
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=without_pandas()
    ) as process:
        deadline = time.monotonic() + PATIENCE
        seen = set()
        while len(seen) < 4 and time.monotonic() < deadline:
            if page := scrape(port):
                seen.add(counter(page, "completed"))
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (128 + number, "")
    assert not list(tmp_path.glob(".*"))
    assert len(seen) == 4
    assert "interrupted, " in output
    cells = row(output, "all")
    assert int(cells[2]) + int(cells[3]) == len(list(read_outcomes(target))) >= max(seen)
    assert int(cells[4]) == int(cells[1]) - int(cells[2]) - int(cells[3]) > 0


@pytest.mark.parametrize("hold", ["nan", "NaN", "inf", "1e999", "-1", "-inf", "-0.001"])
def test_a_hold_is_a_duration(run, trace, hold):
    """NaN and negative ones are refused, with one line, before anything is read."""
    done = run(*trace, f"--hold={hold}")
    assert done.returncode == 2
    assert "--hold" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "report it" not in done.stderr


def test_a_closed_pipe_or_a_full_disk_loses_no_outcomes(trace, tmp_path):
    """The outcomes are written before the table; the exit code is that of the failed print."""
    target = tmp_path / "outcomes.jsonl"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed, Path("/dev/full").open("wb") as full:
        for stdout, code in ((closed, PIPE_CLOSED), (full, 2)):
            done = subprocess.run(
                command(*trace, "--outcomes", target),
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                env=without_pandas(),
            )
            assert done.returncode == code
            assert done.stderr.count("\n") == (code == 2)
            assert len(list(read_outcomes(target))) == 100
            target.unlink()


@pytest.mark.parametrize("columns", ["20", "60", "80"])
def test_a_narrow_terminal_hides_no_kind_and_no_figure(tmp_path, columns):
    """Kinds fold; figures do not."""
    operations, events = tmp_path / "operations.jsonl", tmp_path / "events.csv"
    kind = "invoice-reminder-eu-west-1-with-a-long-name"
    with write_operations(operations) as writer:
        for number in range(1_200):
            writer.write(Operation(f"o{number}", kind, number, 10**13, (f"k{number}",)))
    events.write_text("key,at_ms\nk0,0\nk1,8000000000000\n")
    done = subprocess.run(
        command(operations, events),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=without_pandas() | {"COLUMNS": columns},
    )
    assert done.returncode == 0
    assert "…" not in done.stdout
    lines = [re.split("[│|]", line)[1:-1] for line in done.stdout.splitlines()]
    cells = [[cell.strip() for cell in line] for line in lines if len(line) > 2]
    assert "".join(line[0] for line in cells).startswith(kind)
    assert cells[0][1:5] == ["1,200", "2", "1,198", "0.2%"]
