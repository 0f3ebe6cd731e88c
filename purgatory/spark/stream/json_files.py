"""Reads JSON files of a checkpoint and its output. Any thread may call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from purgatory.spark.errors import CheckpointMismatch

if TYPE_CHECKING:
    from purgatory.spark.filesystem import FileSystem


def read_json_object(file_system: FileSystem, path: str) -> dict[str, Any]:
    """Read a file with one JSON object; `CheckpointMismatch` if damaged."""
    try:
        found = json.loads(file_system.read(path))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CheckpointMismatch(f"{path}: damaged: not the JSON object that was written")
    return found
