"""The front door: its names, and how little it imports."""

import subprocess
import sys

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
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_versions():
    """The versions that are followed, as numbers and as text."""
    assert zmq.zmq_version() == ".".join(map(str, zmq.zmq_version_info()))
    assert zmq.pyzmq_version() == ".".join(map(str, zmq.pyzmq_version_info())) == zmq.__version__


def test_what_zeromq_can_be_built_without_is_not_there():
    """No curve, no ipc: messages stay in the process."""
    assert not any(zmq.has(capability) for capability in ("curve", "ipc", "draft"))
