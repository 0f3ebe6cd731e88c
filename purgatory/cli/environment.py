"""The environment variables of the command line, and those that look like a misspelt one.

Programs of others may use the prefix, too (Kubernetes sets PURGATORY_PORT for a service of that
name), so only a name that is nearly one of ours is worth a word.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from purgatory.service.config import CONFIG_FILE, PREFIX, Config

#: The settings of a connection, see `purgatory.cli.connection`.
CONNECTION: Final = ("address", "name", "key", "server_key", "patience")
# How alike two names have to be; 1 is the same.
_LIKENESS: Final = 0.75


def known_variables() -> set[str]:
    """Return the names of all variables that a command reads."""
    names = {field.name for field in fields(Config)} | set(CONNECTION)
    return {PREFIX + name.upper() for name in names} | {CONFIG_FILE, PREFIX + "TRACEBACK"}


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the names that are nearly those of known variables -> the nearest one."""
    known = {name.removeprefix(PREFIX) for name in known_variables()}
    found = {}
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known:
            continue
        nearest = difflib.get_close_matches(name.upper(), known, 1, _LIKENESS)
        if nearest:
            found[variable] = PREFIX + nearest[0]
    return found
