"""Tests mirror the tree: each module with behaviour has a test file of its own.

`purgatory/bus/loop.py` is tested by `tests/purgatory/bus/test_loop.py`, and a package's `__init__`
by the file named as the package: `purgatory/cli/spark/__init__.py` by
`tests/purgatory/cli/spark/test_spark.py`.
"""

import ast
import re
from pathlib import Path

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT

pytestmark = pytest.mark.usefixtures("collector_paused")

PACKAGES = sorted({"_purgatory_cpython", *LEAVES_AND_ROOF})
FRONT_DOOR = "only loads names at their first use, which tests/test_exports.py does with all"
BOTH = "test_contract and test_both_stores read and write it beside SQLite's"
#: Modules whose tests are elsewhere, and the reason.
EXCEPTIONS = {
    "_purgatory_cpython/mypyc_types.py": "types for the compiler; interpreted they do nothing",
    "purgatory/__init__.py": FRONT_DOOR,
    "purgatory/service/__init__.py": FRONT_DOOR,
    "purgatory/testing/__init__.py": FRONT_DOOR,
    "purgatory/service/cluster/cluster_server.py": "test_cluster_daemon runs it",
    "purgatory/service/store/postgres/tables.py": BOTH,
    "purgatory/service/store/postgres/metadata_rows.py": BOTH,
    "purgatory/service/store/postgres/outcome_table.py": BOTH,
    "purgatory/service/store/postgres/small_tables.py": BOTH,
    "purgatory/service/store/postgres/sessions/session_ends.py": "test_lease_row ends them",
    "purgatory/service/store/postgres/operation_rows.py": BOTH,
    "purgatory/spark/batch/first_events.py": "test_resolve compares what it finds with an oracle",
    "purgatory/spark/report/tables.py": "test_page_maker and test_terminal show them",
    "purgatory/spark/report/wheel_buckets.py": "test_wheel_tuning compares them with a Timer",
    "purgatory/spark/stream/shard_state.py": "test_shard writes and reads it after each batch",
}


def is_idle(line: ast.stmt) -> bool:
    """Tell whether a line does nothing: a docstring, `...` or `pass`."""
    constant = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    return constant or isinstance(line, ast.Pass)


def has_behaviour(source: str) -> bool:
    """Tell whether some function in a module does something."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(not all(map(is_idle, function.body)) for function in functions)


def mirrored(module: str) -> str:
    """Return the path of the test file of a module."""
    path = Path(module)
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return f"tests/{path.parent.as_posix()}/test_{name.strip('_')}.py"


def untested() -> set[str]:
    """Return the paths of the modules with behaviour that have no test file."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    modules = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {
        module
        for module, path in modules.items()
        if has_behaviour(path.read_text(encoding="utf-8"))
        and not (ROOT / mirrored(module)).exists()
    }


def test_every_module_has_its_tests():
    """A module that lacks its test file is an exception, with a reason."""
    assert untested() - EXCEPTIONS.keys() == set()


def test_exceptions_are_needed():
    """An exception is a module that lacks its test file."""
    assert EXCEPTIONS.keys() - untested() == set()


@pytest.mark.parametrize(
    ("source", "does"),
    [
        ("class Error(Exception):\n    'Says what.'", False),
        ("class Loop(Protocol):\n    def step(self): 'Step.'", False),
        ("class Box:\n    def __init__(self): self.content = None", True),
        ("async def wait():\n    await once()", True),
    ],
)
def test_what_behaviour_is(source, does):
    """Constants, types and protocols have none."""
    assert has_behaviour(source) is does


def test_where_tests_are():
    """At the mirrored path, without the underscore of a private name."""
    assert mirrored("mq/pipes/pipe.py") == "tests/mq/pipes/test_pipe.py"
    assert mirrored("mq/_private.py") == "tests/mq/test_private.py"
    assert mirrored("mq/pipes/__init__.py") == "tests/mq/pipes/test_pipes.py"


@pytest.mark.parametrize("package", PACKAGES)
def test_mirrored_tests_do_without_the_others(package):
    """They run beside the compiled package, where neither scripts nor the pages' tests are."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / package).rglob("*.py")
        if re.search(r"^\s*(from|import) (tests\.test_|scripts\b)", path.read_text(), re.MULTILINE)
    ]
    assert found == []
