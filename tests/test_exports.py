"""The front doors name everything public, and nothing else."""

import importlib
import pkgutil

import pytest

import timingwheel


def test_all_is_what_there_is():
    """Every name of __all__ exists, is listed once and is documented. (ruff sees to the order.)"""
    assert len(timingwheel.__all__) == len(set(timingwheel.__all__))
    for name in timingwheel.__all__:
        assert getattr(timingwheel, name).__doc__, name


@pytest.mark.parametrize(
    "name",
    [
        "Timer",
        "TimerTask",
        "ManualClock",
        "InlineExecutor",
        "TimerError",
        "TimerClosed",
        "TimerFull",
    ],
)
def test_the_contract(name):
    """What programs outside import is there."""
    assert name in timingwheel.__all__


def test_every_error_is_exported_and_has_one_base():
    """`except TimerError` catches all of them."""
    errors = importlib.import_module("timingwheel.errors")
    for name, value in vars(errors).items():
        if isinstance(value, type):
            assert issubclass(value, timingwheel.TimerError)
            assert getattr(timingwheel, name) is value


def test_every_module_is_described():
    """Each opens with what it is."""
    for module in pkgutil.iter_modules(timingwheel.__path__, "timingwheel."):
        if not module.name.startswith("timingwheel._"):
            assert importlib.import_module(module.name).__doc__, module.name
