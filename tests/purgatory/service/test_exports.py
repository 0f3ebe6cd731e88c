"""The service's front door."""

import subprocess
import sys

import pytest

import purgatory.service
from purgatory.service import errors


def test_all_is_what_there_is():
    """Every name exists, once, in order, and is documented."""
    names = purgatory.service.__all__
    assert names == sorted(set(names))
    for name in names:
        assert getattr(purgatory.service, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Sever'"):
        purgatory.service.Sever  # noqa: B018


def test_every_error_is_there():
    """With one base, and a code of its own if a server answers with it."""
    found = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert {error.__name__ for error in found} <= set(purgatory.service.__all__)
    assert all(issubclass(error, purgatory.PurgatoryError) for error in found)
    refusals = [error for error in found if issubclass(error, errors.Refused)]
    assert len({error.code for error in refusals}) == len(refusals)
    for error in refusals:
        assert type(errors.refusal(error.code, "words")) is error
    assert type(errors.refusal("of a later version", "words")) is errors.Refused


def test_importing_the_package_needs_no_extra():
    """Nor do settings and errors."""
    program = (
        "import sys\n"
        "import purgatory, purgatory.cli, purgatory.service\n"
        "purgatory.service.Config, purgatory.service.Taken\n"
        "assert not {'zmq', 'msgspec', 'uvicorn'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
