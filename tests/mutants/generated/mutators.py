"""Mutators: all small faults that can be put into a module: one at a time.

Comparisons and boundaries, constants, negations, operators, deleted statements, swapped arguments.
Left out is what no test should notice: annotations, docstrings, logs, `__repr__`, asserts.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
# Functions that are for people, and names whose calls are.
_UNTOLD = frozenset(("__repr__", "__str__"))
_LOGS = frozenset(("log", "logging", "warnings"))
# Fields of nodes.
_NO_CODE = frozenset(("annotation", "returns", "decorator_list", "type_params", "bases"))
_DELETABLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)

#: Makes a fault in a node of a copy of the tree.
Change = Callable[[ast.AST], None]


class Fault(NamedTuple):
    """A fault: `place` counts the nodes of the module; `make` puts it there."""

    place: int
    line: int
    kind: str
    make: Change


def faults_of(source: str) -> list[Fault]:
    """Return all faults that can be put into a module."""
    tree = ast.parse(source)
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    return [
        Fault(places[id(node)], getattr(node, "lineno", 0), kind, make)
        for node in _nodes(tree)
        for kind, make in _changes(node)
    ]


def mutate(source: str, fault: Fault) -> tuple[str, str]:
    """Return the source with a fault, and the changed line, before and after."""
    tree = ast.parse(source)
    mutated = copy.deepcopy(tree)
    node = next(node for place, node in enumerate(ast.walk(mutated)) if place == fault.place)
    fault.make(node)
    before, after = ast.unparse(tree).splitlines(), ast.unparse(mutated).splitlines()
    at = next(
        (n for n, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), -1
    )
    return "\n".join(after) + "\n", f"{before[at].strip()}  ->  {after[at].strip()}"


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in which a fault should be noticed."""
    for name, value in ast.iter_fields(node):
        if name in _NO_CODE:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield child
                yield from _nodes(child)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name in _UNTOLD
    if isinstance(node, ast.Expr):
        call = node.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and _is_log(call))
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        return any(name.startswith("__") for name in names)
    return isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)


def _is_log(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in _LOGS
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield the faults that can be made in one node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        yield "comparison", _compare_otherwise
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        yield "constant", _count_one_more
    elif isinstance(node, ast.BoolOp):
        yield "negation", _join_otherwise
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "negation", _negate
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield "operator", _calculate_otherwise
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        if not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            yield "swapped arguments", _swap_arguments
    elif isinstance(node, _DELETABLE):
        yield "deleted statement", _delete


def _compare_otherwise(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[0] = _COMPARISONS[type(node.ops[0])]()


def _count_one_more(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    is_flag = isinstance(node.value, bool)
    node.value = not node.value if is_flag else int(str(node.value)) + 1


def _join_otherwise(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _negate(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _calculate_otherwise(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    node.op = _OPERATORS[type(node.op)]()


def _swap_arguments(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    node.args[:2] = node.args[1::-1]


def _delete(node: ast.AST) -> None:
    """Have a statement do nothing: it becomes a constant."""
    for name in list(vars(node)):
        if name not in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            delattr(node, name)
    node.__class__ = ast.Pass
