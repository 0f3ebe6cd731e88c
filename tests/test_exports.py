"""The front doors name everything public, and nothing else."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import types

import pytest

import mq
import purgatory
import purgatory.aio
import purgatory.metrics
import purgatory.service.tracing
import timingwheel
import timingwheel.lowlevel

DOORS = [
    *(timingwheel, timingwheel.lowlevel, mq, purgatory, purgatory.aio),
    *(purgatory.metrics, purgatory.service.tracing),
]

# Names that programs import. To take one away breaks them.
CONTRACT = {
    timingwheel: "InlineExecutor ManualClock Timer TimerClosed TimerError TimerFull TimerTask",
    timingwheel.lowlevel: "ATOMIC_SECTIONS ConditionWaiter Reaper TaskExecutor Waiter to_ms",
    mq: "Again Context Mailbox Poller Socket ZMQError device proxy select PUSH PULL",
    purgatory.aio: "AsyncPurgatory LoopFuture WrongEventLoop",
    purgatory.metrics: "MetricsError MetricsServer PurgatoryCollector serve",
    purgatory.service.tracing: "OpenTelemetryTracer",
    purgatory: "DelayedOperation KeyedOperation Outcome Purgatory PurgatoryClosed PurgatoryError",
}

# pyzmq's tree of errors has one class that is no ZMQBaseError.
BASES = {
    timingwheel: timingwheel.TimerError,
    mq: (mq.ZMQBaseError, mq.ZMQVersionError),
    purgatory: purgatory.PurgatoryError,
}


def door(package):
    """Name a test case after its package."""
    return package.__name__


def is_named(package, name):
    """Return whether `__all__` has the name."""
    return name in package.__all__


@pytest.mark.parametrize("package", DOORS, ids=door)
class TestDoor:
    """What holds for every front door."""

    def test_every_name_exists_and_is_listed_once(self, package):
        """`__all__` promises nothing twice and nothing that is not there. (ruff sorts it.)"""
        assert len(package.__all__) == len(set(package.__all__))
        missing = [name for name in package.__all__ if getattr(package, name, None) is None]
        assert missing == []

    def test_every_function_and_class_is_documented(self, package):
        """`help()` has something to say about each."""
        values = {name: getattr(package, name) for name in package.__all__}
        silent = [
            name
            for name, value in values.items()
            if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
            and not inspect.getdoc(value)
        ]
        assert silent == []

    def test_the_contract(self, package):
        """The names that programs import are in `__all__`."""
        missing = [name for name in CONTRACT[package].split() if not is_named(package, name)]
        assert missing == []


@pytest.mark.parametrize("missing", ["", "apsw", "msgspec apsw"])
def test_a_star_import_takes_what_is_installed(missing):
    """A name that needs a package of an extra is left out where the package is missing."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing.split()!r}))\n"
        "from purgatory import *; from purgatory.testing import *\n"
        "print('Purgatory' in dir(), 'Client' in dir(), 'ServiceWorld' in dir())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    expected = f"True {'msgspec' not in missing} {'apsw' not in missing}"
    assert (run.stdout.strip(), run.stderr) == (expected, "")


@pytest.mark.parametrize("package", BASES, ids=door)
def test_every_error_is_exported_and_has_one_base(package):
    """A caller that catches the base catches all errors of the package."""
    errors = importlib.import_module(f"{package.__name__}.errors")
    own = [
        value
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == errors.__name__
    ]
    assert own
    for error in own:
        assert issubclass(error, BASES[package]), error
        assert is_named(package, error.__name__), error
        assert getattr(package, error.__name__) is error


@pytest.mark.parametrize("package", [timingwheel, mq], ids=door)
def test_every_module_is_described(package):
    """Each module opens with what it is; those written in C have a docstring, too."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        assert importlib.import_module(found.name).__doc__, found.name


@pytest.mark.parametrize("package", ["purgatory", "purgatory.service", "purgatory.testing"])
def test_type_checkers_know_all_names(package):
    """A misspelt import is an error to them: they see no `__getattr__` of a package."""
    module = ast.parse(inspect.getsource(importlib.import_module(package)))
    seen = [each.name for each in module.body if isinstance(each, ast.FunctionDef)]
    assert "__getattr__" not in seen
