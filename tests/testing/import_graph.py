"""The modules, imports and classes of the three packages, typing imports included."""

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT, read_imports


def modules() -> dict[str, Path]:
    """Map the dotted name of each module to its file; a package is its `__init__`."""
    found = {}
    for package in LEAVES_AND_ROOF:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@functools.cache
def imports() -> dict[str, set[str]]:
    """Map each module to the modules of ours that it imports anywhere in its file."""
    found: dict[str, set[str]] = {name: set() for name in modules()}
    for importing, imported in read_imports():
        found[importing.removesuffix(".__init__")].add(imported.removesuffix(".__init__"))
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Find the strongly connected components of more than one module (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return found


def classes(names: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield module and name of every class."""
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield name, node.name
