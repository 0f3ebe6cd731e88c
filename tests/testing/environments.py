"""Environments of processes that tests start."""

import os
from pathlib import Path

_WITHOUT_PANDAS = Path(__file__).with_name("without_pandas")


def without_pandas() -> dict[str, str]:
    """Return an environment in which no pandas is found, as without the extra `spark`.

    pyarrow imports pandas where it is installed: a third of the time of a server's start.
    """
    path = filter(None, (str(_WITHOUT_PANDAS), os.environ.get("PYTHONPATH")))
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}
