"""The front door of the service: its names, and what they import."""

import subprocess
import sys

import pytest

import purgatory.service
from purgatory.service import errors


def test_all_is_what_there_is():
    """Every name of `__all__` exists, is sorted and documented."""
    names = purgatory.service.__all__
    assert names == sorted(set(names))
    for name in names:
        assert getattr(purgatory.service, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Sever'"):
        purgatory.service.Sever  # noqa: B018


def test_every_error_is_there():
    """Every error is exported, has the base of all, and a refusal has a code of its own."""
    found = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert {error.__name__ for error in found} <= set(purgatory.service.__all__)
    assert all(issubclass(error, purgatory.PurgatoryError) for error in found)
    refusals = [error for error in found if issubclass(error, errors.Refused)]
    assert len({error.code for error in refusals}) == len(refusals)
    for error in refusals:
        assert type(errors.error_for(error.code, "message")) is error
    assert type(errors.error_for("of a later version", "message")) is errors.Refused


def test_importing_the_package_needs_no_extra():
    """Neither the package nor settings and errors import an extra."""
    program = (
        "import sys\n"
        "import purgatory, purgatory.cli, purgatory.service\n"
        "purgatory.service.Config, purgatory.service.OperationIdTaken\n"
        "assert not {'zmq', 'msgspec', 'uvicorn'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
