"""`purgatory completion`: the scripts offer what there is."""

import shutil
import subprocess

import pytest

pytest.importorskip("shtab")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_offered(run, shell):
    """The script names every command, and options of each."""
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    for word in ("defer", "outcomes", "completion", "patience", "data-dir", "rights"):
        assert word in out


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
