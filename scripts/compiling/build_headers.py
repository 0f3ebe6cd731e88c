"""Put C headers of ours into the C code that mypyc writes.

`_memory_shortage.h` lets compiled code go on where memory is short, instead of crashing: mypyc goes
on with a null pointer where an int or a float cannot be made of a native value, ends the process
where a tuple cannot, and breaks an error for whose traceback there is no memory; CPython without
its lock breaks a list for whose items there is none. `_fast_paths.h` makes it quicker, most of it
without the interpreter lock only. The headers say more.

`setup.py` calls `add_headers` between mypyc and the C compiler. Where mypyc writes something else,
nothing is found or changed.
"""

import re
from collections.abc import Iterable
from pathlib import Path

HEADERS = [
    Path(__file__).parents[2] / "_purgatory_cpython" / name
    for name in ("_memory_shortage.h", "_fast_paths.h")
]

# The first of the headers that mypyc makes of the modules; before it are those of mypyc itself.
OWN_HEADER = re.compile(r'^#include "__native', re.MULTILINE)
MODULE_INIT = re.compile(r"^\s*PyMODINIT_FUNC PyInit_\w+\(void\) \{$", re.MULTILINE)


def add_headers(c_files: Iterable[str]) -> int:
    """Put the headers into those of `c_files` that make a module; return how many."""
    changed = 0
    for c_file in map(Path, c_files):
        after = with_headers(c_file.read_text(encoding="utf-8"))
        if after is not None:
            c_file.write_text(after, encoding="utf-8")
            changed += 1
    return changed


def with_headers(code: str) -> str | None:
    """Return C code with the headers in it; None if it has them, or no place for them."""
    headers = own_headers()
    header, init = OWN_HEADER.search(code), MODULE_INIT.search(code)
    if header is None or init is None or headers in code:
        return None
    filled = f"{code[: init.end()]}\n    fill_spare();{code[init.end() :]}"
    return f"{filled[: header.start()]}{headers}{filled[header.start() :]}"


def own_headers() -> str:
    """Return the text of our headers."""
    return "".join(header.read_text(encoding="utf-8") for header in HEADERS)
