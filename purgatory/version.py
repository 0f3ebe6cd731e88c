"""The version of the package. Any thread."""

import importlib


def package_version() -> str:
    """Return the version of the package; "(not installed)" if it is not."""
    # Imported when needed: it takes as long as a fifth of the start of a command.
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("timer-purgatory"))
    except metadata.PackageNotFoundError:
        return "(not installed)"
