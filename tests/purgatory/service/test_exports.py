"""The front door of the service: its names, and what they import."""

import subprocess
import sys

import pytest

import purgatory.service


def test_all_is_what_there_is():
    """Every name of `__all__` exists, is sorted and documented."""
    names = purgatory.service.__all__
    assert names == sorted(set(names))
    for name in names:
        assert getattr(purgatory.service, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Sever'"):
        purgatory.service.Sever  # noqa: B018


def test_importing_the_package_needs_no_extra():
    """Neither the package nor settings and errors import an extra, and a server no HTTP."""
    program = (
        "import sys\n"
        "import purgatory, purgatory.cli, purgatory.service\n"
        "purgatory.service.Config, purgatory.service.OperationIdTaken\n"
        "assert not {'zmq', 'msgspec', 'uvicorn'} & set(sys.modules), sys.modules\n"
        "import purgatory.service.daemon\n"
        "assert not {'starlette', 'uvicorn'} & set(sys.modules), sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
