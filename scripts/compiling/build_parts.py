"""Put the C files of the compiled modules together in parts, to be compiled at the same time.

mypyc writes a C file for each module, or one for all. One for all keeps one core busy for minutes.
One for each reads the headers again every time, and lets the C compiler inline no function in
another module. So each part includes the files of the modules that call each other often.
"""

import os
from collections.abc import Iterable
from pathlib import Path

# The service waits for disks and sockets: what -O2 would add there is not measurable, and takes a
# third of the compiler's time. The first part, all other modules, has mypyc's own functions.
SECOND = ("purgatory.service.", "purgatory.replay.")
LEVEL_OF_SECOND = "-O1"

# Shared by the parts, so that one spare memory is kept for both.
START_OF_SECOND = "#include <Python.h>\n#include <CPy.h>\n#define SPARE_IS_IN_FIRST_PART\n"


def write_parts(sources: Iterable[str], modules: Iterable[str], headers: str) -> list[str]:
    """Write the parts beside `sources`, mypyc's C files; return their paths, the longest first."""
    seconds = {f"__native_{name_in_c(path)}.c" for path in modules if is_second(path)}
    first: list[Path] = []
    second: list[Path] = []
    for source in map(Path, sources):
        (second if source.name in seconds else first).append(source)
    first.sort(key=lambda source: "PyMODINIT_FUNC" not in source.read_text(encoding="utf-8"))
    return [
        write_part("first", "", first),
        write_part("second", START_OF_SECOND + headers, second),
    ]


def is_part(source: str) -> bool:
    """Tell whether a C file is one of the parts."""
    return Path(source).stem.startswith("part_")


def level_of(source: str) -> list[str]:
    """Return what to tell the compiler of a C file, beside what holds for all."""
    return [LEVEL_OF_SECOND] if os.name == "posix" and Path(source).stem == "part_second" else []


def is_second(path: str) -> bool:
    """Return whether a module, named by its path, is for the second part."""
    return path.removesuffix(".py").replace("/", ".").startswith(SECOND)


def name_in_c(path: str) -> str:
    """Return what mypyc calls a module in its C files."""
    return path.removesuffix(".py").replace("/", ".").replace("___", "___3_").replace(".", "___")


def write_part(name: str, start: str, sources: list[Path]) -> str:
    """Write the C file of a part, which includes `sources`; return its path."""
    part = sources[0].with_name(f"part_{name}.c")
    includes = "".join(f'#include "{source.name}"\n' for source in sources)
    part.write_text(start + includes, encoding="utf-8")
    return str(part)
