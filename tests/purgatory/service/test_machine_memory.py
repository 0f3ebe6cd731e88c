"""How much memory a process may use."""

import os

import pytest

from purgatory.service import Config, ConfigError
from purgatory.service.machine_memory import MAX_BYTES, MIN_BYTES, available_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
GIB = 1 << 30


@pytest.fixture
def cgroup(tmp_path):
    """Make what the system tells of cgroups: lines of the process, and files with limits."""

    def make(lines, files):
        (tmp_path / "own").write_text(lines)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return available_bytes(tmp_path / "own", tmp_path / "cgroup")

    return make


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        ("", {}, MACHINE),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {"memory.max": "1048576\n"}, 1 << 20),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "2097152\n"}, 2 << 20),
        ("0::/a\n", {"a/memory.max": f"{1 << 60}\n"}, MACHINE),
        (
            "4:memory:/a\n2:cpu:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": "4194304\n", "cpu/a/memory.limit_in_bytes": "1\n"},
            4 << 20,
        ),
    ],
    ids=["none", "unlimited", "limited", "parent", "more than there is", "version 1"],
)
def test_the_limit_of_the_cgroup(cgroup, lines, files, limit):
    """Of it and of those above it, the least counts; the machine's memory if there is no limit."""
    assert cgroup(lines, files) == limit


def test_the_default_is_half(monkeypatch):
    """Within bounds."""
    for available, default in ((GIB, GIB // 2), (1 << 20, MIN_BYTES), (1 << 50, MAX_BYTES)):
        monkeypatch.setattr(
            "purgatory.service.machine_memory.available_bytes", lambda found=available: found
        )
        assert Config().max_memory == default


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1", f"max_memory is 1; expected 0, or at least {MIN_BYTES}"),
        ("-1", "--max-memory is -1; expected a whole number, 0 to 9007199254740992"),
        ("much", "--max-memory is 'much'; expected a whole number, 0 to 9007199254740992"),
    ],
)
def test_a_bad_setting(value, message):
    """The error names the place, the value and what is expected; 0 is none."""
    with pytest.raises(ConfigError) as error:
        Config.load({"max_memory": value}, environment={})
    assert str(error.value) == message
    assert Config.load({"max_memory": "0"}, environment={}).max_memory == 0
