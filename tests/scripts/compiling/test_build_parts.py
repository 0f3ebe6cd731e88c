"""build_parts puts the C files of modules together in parts, each with what it needs."""

from scripts.compiling.build_parts import is_part, level_of, write_parts

MODULES = ["timingwheel/wheel.py", "purgatory/service/server/clock.py", "mq/pipes/pipe.py"]
FILES = {
    "__native_timingwheel___wheel.c": "wheel",
    "__native_purgatory___service___server___clock.c": "clock",
    "__native_mq___pipes___pipe.c": "pipe",
    "__native_group.c": "PyMODINIT_FUNC PyInit_group__mypyc(void) {",
}


def test_each_file_is_in_one_part(tmp_path):
    """The service is apart, with headers of ours; the file that makes the module is the first."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    first, second = write_parts([str(tmp_path / name) for name in FILES], MODULES, "/* ours */\n")
    assert (tmp_path / first).read_text().splitlines() == [
        '#include "__native_group.c"',
        '#include "__native_timingwheel___wheel.c"',
        '#include "__native_mq___pipes___pipe.c"',
    ]
    start, _, includes = (tmp_path / second).read_text().partition("/* ours */\n")
    assert start.splitlines()[-1] == "#define SPARE_IS_IN_FIRST_PART"
    assert includes == '#include "__native_purgatory___service___server___clock.c"\n'
    assert [is_part(path) for path in (first, second, "timingwheel/wheel.c")] == [True, True, False]
    assert (level_of(first), level_of(second)) == ([], ["-O1"])
