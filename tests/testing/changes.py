"""changes_of: what a commit writes, by the names of its parts."""

from typing import Any

from purgatory.service.store.changes import Changes


def changes_of(**parts: Any) -> Changes:
    """Return changes with these rows."""
    changes = Changes()
    for name, rows in parts.items():
        setattr(changes, name, rows)
    return changes
