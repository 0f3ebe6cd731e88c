"""PurgatoryParts: the door to the core; without the GIL each thread's operations have an owner."""

import ast
from collections import defaultdict

import pytest

from purgatory import DelayedOperation
from purgatory.core.operations.operation_state import first_of
from tests.testing.import_graph import modules
from tests.testing.purgatory_harness import PurgatoryHarness, in_thread
from timingwheel.lowlevel import LOCKED_SECTIONS

CORE = "purgatory.core"
NAMED_TUPLES = {"_make", "_replace"}


def submitted(p):
    """Return an operation that waits."""
    operation = DelayedOperation(30)
    p.try_complete_else_watch(operation, ["k"])
    return operation


@pytest.mark.skipif(not LOCKED_SECTIONS, reason="one for all threads with the GIL")
def test_each_thread_has_a_copy_of_the_owner():
    """So threads that make operations count the references to different objects."""
    p = PurgatoryHarness().purgatory
    here, other = submitted(p)._op_owner, in_thread(lambda: submitted(p)._op_owner)
    assert here is submitted(p)._op_owner
    assert here is not other
    assert first_of(here) is first_of(other) is p._parts.owner


def fields_set(tree):
    """Yield the private attributes that a module sets or declares."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield part.target.id
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value  # among them the names of slots


def room_of(module):
    """Return the room of a module: its first two names."""
    return ".".join(module.split(".")[:2])


def test_no_other_room_uses_private_fields():
    """What `aio`, `replay`, the service and others need of the core has a name."""
    trees = {
        module: ast.parse(path.read_text(encoding="utf-8"))
        for module, path in modules().items()
        if room_of(module).startswith("purgatory.")
    }
    fields, methods = defaultdict(set), defaultdict(set)
    for module, tree in trees.items():
        private = {name for name in fields_set(tree) if name[:1] == "_" != name[1:2]}
        fields[room_of(module)] |= private - NAMED_TUPLES
        methods[room_of(module)] |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }
    used = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in trees.items()
        if room_of(module) != CORE
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in fields[CORE]
        and (
            node.attr.startswith("_op_")
            or node.attr not in fields[room_of(module)] | methods[room_of(module)]
        )
    ]
    assert "_parts" in fields[CORE]
    assert used == []
