"""The version of the package. Any thread."""

import importlib.metadata


def package_version() -> str:
    """Return the version of the package; "(not installed)" if it is not."""
    try:
        return importlib.metadata.version("timer-purgatory")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
