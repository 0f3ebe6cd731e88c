"""All exceptions of the packages survive pickle and copy."""

import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest

PACKAGES = ("mq", "timingwheel", "purgatory")
#: Values by the types that constructors of exceptions name.
SAMPLES = {"str": "a text", "int": 22, "bool": True, "object": "anything", "tuple[BadRow, ...]": ()}


def exceptions():
    """Yield every class of exceptions of the packages, of modules that this machine can import."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}.", onerror=lambda _: None):
            if module.name.rpartition(".")[2] == "__main__":
                continue
            try:
                found = vars(importlib.import_module(module.name))
            except ImportError:  # an extra is not installed
                continue
            for value in found.values():
                is_class = inspect.isclass(value) and issubclass(value, BaseException)
                if is_class and value.__module__ == module.name:
                    yield value


def sample(kind):
    """Make an exception with an argument for each parameter of its constructor."""
    if kind.__init__ is Exception.__init__ or not inspect.isfunction(kind.__init__):
        try:
            return kind("a text")
        except TypeError:  # compiled, and so without a signature: `KeyFailed`, of a time
            return kind(22)
    positional, named = [], {}
    for parameter in list(inspect.signature(kind).parameters.values()):
        annotation = parameter.annotation  # since 3.14 a union has a `__name__`, too
        name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        value = SAMPLES[name.split(" | ", maxsplit=1)[0].strip("'")]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            positional.append(value)
    return kind(*positional, **named)


def attributes(error):
    """Return what an exception has by name, but methods: a compiled class has no `__dict__`."""
    names = [name for name in dir(error) if name[0] != "_"]
    found = {name: getattr(error, name) for name in names if hasattr(error, name)}
    return {name: value for name, value in found.items() if not callable(value)}


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_every_exception_can_be_made_again(again):
    """With its type, its arguments, its text and its attributes."""
    kinds = sorted(set(exceptions()), key=lambda kind: (kind.__module__, kind.__name__))
    assert len(kinds) > 40
    for kind in kinds:
        error = sample(kind)
        made = again(error)
        assert type(made) is kind
        assert (made.args, str(made)) == (error.args, str(error)), kind
        assert attributes(made) == attributes(error), kind
