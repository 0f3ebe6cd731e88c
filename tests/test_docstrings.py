"""`help` shows what the source says, compiled or not."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import mq
import purgatory
import timingwheel
from purgatory import DelayedOperation, Purgatory
from timingwheel import Timer, TimerTask

pytestmark = pytest.mark.usefixtures("collector_paused")


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def compiled_modules():
    """The modules that run compiled; none in the interpreted suite."""
    parameters = []
    for package in (mq, purgatory, timingwheel):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            spec = found.module_finder.find_spec(found.name)
            source = Path(spec.origin).parent / f"{found.name.rpartition('.')[2]}.py"
            if not spec.origin.endswith(".py") and source.exists():
                parameters.append(pytest.param(found.name, source, id=found.name))
    return parameters


def methods_without_docstrings():
    """The public methods of public classes whose source says nothing, with their modules."""
    for package in (mq, purgatory, timingwheel):
        root = Path(package.__file__).parent
        for path in sorted(root.rglob("*.py")):
            name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            classes = [each for each in ast.parse(path.read_text()).body if is_public_class(each)]
            for owner in classes:
                methods = [each for each in owner.body if isinstance(each, FUNCTIONS)]
                for method in methods:
                    if not method.name.startswith("_") and ast.get_docstring(method) is None:
                        yield name.removesuffix(".__init__"), owner.name, method.name


def is_public_class(node):
    """Whether a statement makes a class that others use."""
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def test_every_public_method_has_or_inherits_a_docstring():
    """What implements a contract need not repeat it: `help` shows the contract's words."""
    silent = [
        f"{module}.{owner}.{method}"
        for module, owner, method in methods_without_docstrings()
        if not inspect.getdoc(getattr(getattr(importlib.import_module(module), owner), method))
    ]
    assert silent == []


def docstrings(owner, node, name):
    """Pairs of what `owner` has below `node` and of its docstring in the source, with names."""
    yield name, owner, ast.get_docstring(node)
    if not isinstance(node, ast.Module | ast.ClassDef):
        return
    for child in node.body:
        # CPython describes special methods that have a slot itself.
        if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("__"):
            decorated = any(isinstance(each, ast.Attribute) for each in child.decorator_list)
            if ast.get_docstring(child) and not decorated:
                yield from docstrings(
                    inspect.getattr_static(owner, child.name), child, f"{name}.{child.name}"
                )


@pytest.mark.parametrize(("module", "source"), compiled_modules())
def test_a_compiled_module_keeps_its_docstrings(module, source):
    """Of the module, its classes, functions, methods and properties."""
    found = list(docstrings(importlib.import_module(module), ast.parse(source.read_text()), module))
    assert [(name, inspect.getdoc(each)) for name, each, _ in found] == [
        (name, docstring) for name, _, docstring in found
    ]


@pytest.mark.parametrize(
    ("function", "word", "signature"),
    [
        (Purgatory.defer, "future", "(self, /, *keys, timeout=30.0, need=1, context=None)"),
        (Timer.schedule, "callback", "(self, /, delay, callback, *args, context=None)"),
        (TimerTask.cancel, "run", "(self, /)"),
        (mq.Socket.send, "bytes", "(self, /, data, flags=0, copy=True, "),
    ],
)
def test_help_has_the_signature_and_the_docstring(function, word, signature):
    """`help` shows both; mypyc by itself keeps the signature only."""
    assert word in inspect.getdoc(function)
    if timingwheel.COMPILED:
        assert str(inspect.signature(function)).startswith(signature)


def test_classes_and_properties_have_docstrings():
    """They too lose them when mypyc compiles them."""
    assert "try_complete" in inspect.getdoc(DelayedOperation)
    assert "completed" in inspect.getdoc(DelayedOperation.completed)
