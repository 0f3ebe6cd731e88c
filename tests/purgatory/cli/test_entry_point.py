"""The command line: every error is one line and exit code 2, without a traceback."""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli.access import _KEYS_EXAMPLES
from purgatory.cli.entry_point import misspelt
from purgatory.service.auth.access import Access
from purgatory.service.protocol import Work
from purgatory.trace import KeyEvent, write_events

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

    module = types.ModuleType("going")
    module.add_parsers = lambda subparsers: subparsers.add_parser("go").set_defaults(run=command)
    monkeypatch.setitem(sys.modules, "going", module)
    monkeypatch.setitem(cli.COMMANDS, "go", "going")


def test_each_command_is_where_the_table_says():
    """In the order of the table; each is parsed alone as among all."""
    parser = cli.make_parser()
    [commands] = [action.choices for action in parser._actions if action.choices]
    assert list(commands) == [*cli.COMMANDS, "completion"]
    for name, module in cli.COMMANDS.items():
        [alone] = [action.choices for action in cli.make_parser(name)._actions if action.choices]
        assert set(alone) == {"completion", *(n for n, m in cli.COMMANDS.items() if m == module)}
        assert alone[name].format_help() == commands[name].format_help()


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["keys", "list", "--keys-dir", "/"], "purgatory.cli.access"),
        (["stats", "--patience", "0.01"], "purgatory.cli.top"),
    ],
)
def test_a_command_imports_no_other_one(words, module):
    """Neither the module of another command, nor what takes long and only others need."""
    code = (
        f"import sys; from purgatory.cli import entry_point; entry_point.main({words!r})\n"
        "heavy = 'prometheus_client', 'importlib.metadata', 'asyncio', 'purgatory.trace'\n"
        "print(*sorted(sys.modules.keys() & {*entry_point.COMMANDS.values(), *heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == module


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
from purgatory.cli.entry_point import misspelt
from purgatory.trace import KeyEvent, write_events

def work(arguments):
    with write_events(sys.argv[1]) as out:
        out.write(KeyEvent("k", 1))
        print("working", flush=True)
        sys.stdin.read()

sys.add_parsers = lambda subparsers: subparsers.add_parser("go").set_defaults(run=work)
cli.COMMANDS["go"] = "sys"
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


# The environment


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("PURGATORY_ADRESS", "PURGATORY_ADDRESS"),
        ("PURGATORY_DATADIR", "PURGATORY_DATA_DIR"),
        ("PURGATORY_max_pending", "PURGATORY_MAX_PENDING"),
        ("PURGATORY_HTTPBIND", "PURGATORY_HTTP_BIND"),
    ],
)
def test_a_misspelt_variable(name, nearest, capsys, monkeypatch):
    """A warning names the nearest one; the command goes on."""
    monkeypatch.setenv(name, "1")
    assert cli.main(["trace", "check", "/nothing"]) == cli.FAILED
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"purgatory: warning: {name} is not a setting; did you mean {nearest}?"
    assert "/nothing" in second


def test_other_variables():
    """Those of other programs with our prefix are left alone, as those that are right."""
    ours = ["PURE", "ROUNDS", "SECONDS", "KILLS", "INTERRUPTS", "EXAMPLES", "DATA_DIR"]
    others = ["PORT", "SERVICE_HOST", "PORT_7411_TCP"]
    names = [f"PURGATORY_{name}" for name in ours + others]
    assert misspelt(dict.fromkeys([*names, "ADRESS"], "")) == {}


# purgatory completion

needs_shtab = pytest.mark.skipif(
    importlib.util.find_spec("shtab") is None, reason="pip install 'timer-purgatory[completion]'"
)


@needs_shtab
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_offered(run, shell):
    """The script names every command, and options of each."""
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    for word in ("defer", "outcomes", "completion", "patience", "data-dir", "rights"):
        assert word in out


@needs_shtab
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("purgatory out", ["outcomes"]),
        ("purgatory outcomes a", ["ack"]),
        ("purgatory defer --ne", ["--need"]),
        ("purgatory keys allow --ri", ["--rights"]),
    ],
)
def test_bash_completes(run, tmp_path, line, offered):
    """In a real bash the TAB key offers these."""
    script = tmp_path / "purgatory.bash"
    script.write_text(run("completion", "bash")[1])
    words = line.split()
    program = f"""
        source {script}
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}
        function=$(complete -p purgatory | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$function" purgatory {words[-1]} {words[-2]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == offered


def test_another_shell(run):
    code, _, err = run("completion", "tcl")
    assert code == 2
    assert "tcl" in err


# The help


def parsers(parser, *names):
    """Yield each parser below one, and the words of its command."""
    yield parser, names
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, *names, name)


def examples():
    """Yield the arguments of each example of the help; under spark-submit, those of the program."""
    for parser, names in parsers(cli.make_parser()):
        text = f"{parser.epilog or ''}\n{parser.description or ''}".replace("\\\n", " ")
        for line in re.findall(r"^(?:  |example: )(.*)$", text, re.MULTILINE):
            program, _, arguments = line.partition("purgatory_main.py ")
            if arguments:
                yield ["spark", *shlex.split(arguments)]
            elif found := re.match(r"(?:PURGATORY\w+=\S+ )?purgatory (?!COMMAND)(.*)", program):
                yield shlex.split(re.split(r"  +| > ", found[1])[0])
            assert "spark-submit" not in program or arguments, names


def test_each_example_of_the_help_can_be_given():
    """Its command and its options exist; a program of spark-submit takes them without `spark`."""
    found = [each for each in examples() if each[-1] != "..."]
    assert len(found) > 60
    for each in found:
        assert cli.make_parser().parse_args(each)


def test_what_a_worker_of_an_example_may_do():
    """`purgatory keys` gives it the right without which the server leases it no job."""
    worker = re.search(r"keys allow worker .*--rights (\S+)", _KEYS_EXAMPLES)[1]
    Access("worker", rights=worker.split(",")).check_request(Work(1, {}, 1, 1000))
