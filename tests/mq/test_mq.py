"""The front door: its names, and how little it imports."""

import copy
import importlib
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import mq as zmq


def test_everything_exported_is_there():
    """All names of __all__ exist, and the errors have one base."""
    for name in zmq.__all__:
        assert hasattr(zmq, name)
    for error in (zmq.ZMQError, zmq.MailboxClosed, zmq.NotDone, zmq.ZMQBindError):
        assert issubclass(error, zmq.ZMQBaseError)
    assert str(zmq.Again()) == zmq.strerror(zmq.EAGAIN)
    assert str(zmq.ContextTerminated()) == "Context was terminated"


def test_the_import_is_slim():
    """`import mq` takes the standard library only, and neither asyncio, json, pickle nor inspect
    beyond what dataclasses need themselves.
    """
    code = """
import sys
import dataclasses, enum, select, threading, weakref
before = set(sys.modules)
import mq
new = {m.partition(".")[0] for m in set(sys.modules) - before}
new -= {"mq", "_purgatory_cpython", "timer_purgatory__mypyc"}
assert new <= set(sys.stdlib_module_names), new
assert not {"asyncio", "json", "pickle", "logging", "random", "socket"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_versions():
    """The versions that are followed, as numbers and as text."""
    assert zmq.zmq_version() == ".".join(map(str, zmq.zmq_version_info()))
    assert zmq.pyzmq_version() == ".".join(map(str, zmq.pyzmq_version_info())) == zmq.__version__


def test_what_zeromq_can_be_built_without_is_not_there():
    """No curve, no ipc: messages stay in the process."""
    assert not any(zmq.has(capability) for capability in ("curve", "ipc", "draft"))


@pytest.mark.parametrize("make", [zmq.Mailbox, zmq.Signaler, zmq.YPipe, zmq.YQueue])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_building_blocks_are_not_copied(make, again):
    """A copy would have the same descriptors, or positions of its own in the same chunks."""
    thing = make()
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: (it has|two threads)"):
        again(thing)
    if make in (zmq.Mailbox, zmq.Signaler):
        thing.close()


def test_handles_are_not_pickled(ctx):
    """A copy is another handle for the same thing, as pyzmq's is; a pickle is refused."""
    with ctx.socket(zmq.PUSH) as push:
        for handle in (ctx, push):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(
                    TypeError, match="cannot be pickled: only this process can use the handle"
                ):
                    pickle.dumps(handle, protocol)
            for same in (copy.copy(handle), copy.deepcopy(handle)):
                assert same.underlying == handle.underlying
    assert push.closed


def public(thing):
    """Return the names of a module, as it exports them, or of a class, without options."""
    constants = pytest.importorskip("zmq").SocketOption.__members__
    names = getattr(thing, "__all__", None) or dir(thing)
    hidden = {"Enum", "IntEnum", "IntFlag", *constants, *map(str.lower, constants)}
    return {name for name in names if name[0] != "_" or name == "__revision__"} - hidden


def test_the_page_lists_what_pyzmq_has_beyond():
    """Exactly the names that `mq` lacks, of modules and classes."""
    pyzmq = pytest.importorskip("zmq")
    pages = Path(__file__).parents[2] / "docs" / "mq.md"
    section = (
        pages.read_text().partition("## What pyzmq has and mq has not")[2].partition("\n## ")[0]
    )
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `zmq")]
    listed = {head.strip(" `"): set(names.replace("`", "").split()) for head, names in rows}
    for name, names in listed.items():
        theirs, ours = pyzmq, zmq
        for part in name.split(".")[1:]:
            if part[0].islower():
                importlib.import_module(f"zmq.{part}")
                importlib.import_module(f"mq.{part}")
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        missing = {each for each in public(theirs) if not hasattr(ours, each)}
        instance = {"context", "copy_threshold", "closed", "more", "tracker", "data"}
        inherited = public(pyzmq.Socket) if name == "zmq.asyncio.Socket" else set()
        assert names == missing - instance - inherited, name
    for name in ("Poller", "MessageTracker", "asyncio.Poller"):
        assert name not in listed
    modules = next(line for line in section.splitlines() if line.startswith("| modules"))
    theirs = {module.name for module in pkgutil.iter_modules(pyzmq.__path__)}
    ours = {module.name for module in pkgutil.iter_modules(zmq.__path__)}
    inner = {"curve_keygen", "tests", "_future", "_typing"}
    assert set(modules.split("|")[2].replace("`", "").split()) == theirs - ours - inner
