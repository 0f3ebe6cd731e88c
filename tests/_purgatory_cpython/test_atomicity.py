"""Whether a dict that cannot grow in `setdefault` stays in order, on this Python."""

import subprocess
import sys

import pytest

from _purgatory_cpython.atomicity import SETDEFAULT_FAILS_SAFELY

# A dict that is full; in a process of its own, which such a dict may crash.
PROGRAM = """
import _testcapi

full = {n: n for n in range(5)}
_testcapi.set_nomemory(0)
try:
    full.setdefault(5, 5)
except (MemoryError, SystemError):
    pass
_testcapi.remove_mem_hooks()
print(len(full))
"""


def test_a_dict_that_cannot_grow():
    """It has the entries that it had, or one is counted that is not there."""
    pytest.importorskip("_testcapi", reason="this Python cannot let allocations fail")
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == (5 if SETDEFAULT_FAILS_SAFELY else 6)
