"""SETDEFAULT_FAILS_SAFELY: whether a dict that cannot grow in `setdefault` stays in order.

CPython 3.13.0 to 3.13.5 counts the entry that it has not inserted, and crashes when the dict grows
later.
"""

import sys
from typing import Final

__all__ = ["SETDEFAULT_FAILS_SAFELY"]

SETDEFAULT_FAILS_SAFELY: Final = not (3, 13) <= sys.version_info < (3, 13, 6)
