"""Tests mirror the tree: a module with behaviour has its test file at the same place below tests/."""

import ast
from pathlib import Path

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT

TESTS = ROOT / "tests"
PACKAGES = sorted({*LEAVES_AND_ROOF, "_purgatory_cpython"})


def has_behaviour(path: Path) -> bool:
    """Whether a function does something: more than a docstring, `...`, `pass`, or an error."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(not all(is_idle(line) for line in function.body) for function in functions)


def is_idle(line: ast.stmt) -> bool:
    constant = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    return constant or isinstance(line, ast.Pass)


def mirrored(path: Path) -> Path:
    """Return where the tests of a module are, `_x.py` in `test_x.py`."""
    inside = path.relative_to(ROOT)
    name = inside.parent.name if path.name == "__init__.py" else path.stem
    return TESTS / inside.parent / f"test_{name.strip('_')}.py"


if __name__ == "__main__":
    missing = [
        p
        for pk in PACKAGES
        for p in sorted((ROOT / pk).rglob("*.py"))
        if has_behaviour(p) and not mirrored(p).exists()
    ]
    print(len(missing))
    print("\n".join(f"{len(p.read_text().splitlines()):4} {p.relative_to(ROOT)}" for p in missing))
