"""A process in which gevent or eventlet has patched threads is refused, by one clear error."""

import importlib.util
import subprocess
import sys
import types

import pytest

from _purgatory_cpython.green_threads import refuse_green_threads
from _purgatory_cpython.threads import InterruptibleThread
from mq import Mailbox
from purgatory.service.platform import REAL_PLATFORM

#: Stands for gevent.monkey after `patch_all`; the real one replaces the threads of the tests.
PATCHED = """
import sys, types
monkey = types.ModuleType("gevent.monkey")
monkey.is_module_patched = {patched!r}.__contains__
sys.modules["gevent.monkey"] = monkey
import {package}
print("imported")
"""


@pytest.fixture
def monkey(monkeypatch):
    module = types.ModuleType("gevent.monkey")
    module.is_module_patched = {"threading"}.__contains__
    monkeypatch.setitem(sys.modules, "gevent.monkey", module)
    return module


@pytest.mark.parametrize("package", ["timingwheel", "mq", "purgatory", "purgatory.aio"])
def test_import_is_refused(package):
    """Each package says why it cannot be imported."""
    code = PATCHED.format(patched=["threading", "select", "os"], package=package)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
    assert "ImportError: gevent has patched threading, select" in done.stderr


def test_other_patches_are_fine():
    """gevent may be loaded, and patch what is not needed here."""
    code = PATCHED.format(patched=["os", "ssl"], package="purgatory")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "imported\n", done.stderr


def test_patched_later(monkey):
    """A patch that comes after the import is found when a thread is started."""
    thread = InterruptibleThread(target=int)
    with pytest.raises(RuntimeError, match="gevent has patched threading"):
        thread.start()
    monkey.is_module_patched = lambda name: False
    thread.start()
    thread.join()


def test_without_gevent(monkeypatch):
    """Nothing is asked where gevent is not loaded."""
    monkeypatch.delitem(sys.modules, "gevent.monkey", raising=False)
    refuse_green_threads(ImportError)


@pytest.mark.parametrize(
    ("patched", "refused"), [("thread", True), ("select", True), ("os", False)]
)
def test_eventlet(patched, refused, monkeypatch):
    """A patch of eventlet is refused in the same way."""
    patcher = types.ModuleType("eventlet.patcher")
    patcher.is_monkey_patched = {patched}.__contains__
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)
    if refused:
        with pytest.raises(ImportError, match=f"eventlet has patched {patched}: "):
            refuse_green_threads(ImportError)
    else:
        refuse_green_threads(ImportError)


def test_client_patched_later(monkey):
    """Clients, servers and mailboxes say who has patched threads, before they use what is gone."""
    for make in (REAL_PLATFORM.doorbell, lambda: REAL_PLATFORM.thread(None, "a thread"), Mailbox):
        with pytest.raises(RuntimeError, match="gevent has patched threading"):
            make()


#: Each call in a process of its own that gevent itself patches, before the import or after.
WITH_GEVENT = """
from gevent import monkey
if {first}:
    monkey.patch_all()
import mq, purgatory, purgatory.aio, timingwheel
monkey.patch_all()
{call}
"""
CALLS = (
    "timingwheel.Timer().start()",
    "purgatory.Purgatory().start()",
    "mq.Context().socket(mq.PUSH)",
    'purgatory.Client("tcp://127.0.0.1:1")',
)


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="needs gevent")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("first", [True, False])
def test_gevent_itself(first, call):
    """With gevent itself, whatever is called first raises the error, and nothing hangs."""
    code = WITH_GEVENT.format(first=first, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    error = "ImportError" if first else "RuntimeError"
    assert done.stderr.splitlines()[-1].startswith(f"{error}: gevent has patched threading, ")
