"""Put the docstrings of compiled modules into the C code that mypyc has written.

mypyc writes the signature of a function or class into its C code and drops the docstring, so `help`
shows nothing of it. `setup.py` calls `add_docstrings` between mypyc and the C compiler. The C code
names each place: which module a prefix stands for is read from it as well. Where mypyc writes
something else, nothing is found and nothing is changed.
"""

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

# A string literal in C, as mypyc writes it: one line, without its quotes.
STRING = r'"((?:[^"\\\n]|\\.)*)"'
MODULE = re.compile(r'PyModuleDef (\w+)module = \{\s+PyModuleDef_HEAD_INIT,\s+"([\w.]+)",')
METHOD = re.compile(rf"\(PyCFunction\)CPyPy_(\w+),\s+[A-Z_| ]+, PyDoc_STR\({STRING}\)")
# Its signature cannot be told, for it has a default that is no literal.
UNSIGNED = re.compile(r"\(PyCFunction\)CPyPy_(\w+),\s+[A-Z_| ]+, PyDoc_STR\((NULL)\)")
CLASS = re.compile(
    rf"PyTypeObject CPyType_(\w+)_template_ = \{{[^{{}}]*?\.tp_doc = PyDoc_STR\({STRING}\)"
)
PROPERTY = re.compile(r"\(getter\)(\w+_get_\w+),\s+(?:\(setter\)\w+|NULL),\s+(NULL), NULL\}")
# Enums and named tuples are made by running the module, of which this is the end. The module object
# itself may come from elsewhere: on a free-threaded Python it is made by the file that is imported.
MODULE_HAS_RUN = re.compile(
    r"char result = CPyDef_(\w+)_____top_level__\(\);\s+if \(result == 2\)\s+goto fail;"
)
SET_MODULE_DOCSTRING = """
    if (PyModule_SetDocString(module, "{docstring}") < 0)
        PyErr_Clear();"""
SET_DOCSTRING = """
    {{
        PyObject *owner = PyObject_GetAttrString(module, "{name}");
        PyObject *doc = PyUnicode_FromString("{docstring}");
        if (!owner || !doc || PyObject_SetAttrString(owner, "__doc__", doc) < 0)
            PyErr_Clear();
        Py_XDECREF(owner);
        Py_XDECREF(doc);
    }}"""

Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def add_docstrings(c_files: Iterable[str], modules: Iterable[str]) -> int:
    """Write the docstrings of `modules`, paths of Python files, into `c_files`; return how many."""
    sources = {path.removesuffix(".py").replace("/", "."): Path(path) for path in modules}
    added = 0
    for c_file in map(Path, c_files):
        before = c_file.read_text(encoding="utf-8")
        docstrings: dict[str, str] = {}
        for prefix, module in MODULE.findall(before):
            if module in sources:
                docstrings |= read_docstrings(sources[module], prefix)
        after, count = with_docstrings(before, docstrings)
        if count:
            c_file.write_text(after, encoding="utf-8")
        added += count
    return added


def read_docstrings(source: Path, prefix: str) -> dict[str, str]:
    """Map what the C code calls the module, its classes and functions to their docstrings."""
    found: dict[str, str] = {}

    def visit(node: Node, name: str) -> None:
        docstring = ast.get_docstring(node)
        if docstring:
            found[name] = docstring
        if isinstance(node, ast.Module | ast.ClassDef):
            for child in node.body:
                if isinstance(child, Node) and "setter" not in decorators(child):
                    is_property = "property" in decorators(child)
                    visit(child, f"{name}{'_get_' if is_property else '___'}{child.name}")

    visit(ast.parse(source.read_text(encoding="utf-8")), prefix)
    return found


def decorators(node: Node) -> set[str]:
    """Return the last names of what decorates a class or function."""
    found = [] if isinstance(node, ast.Module) else node.decorator_list
    return {ast.unparse(each).rpartition(".")[2] for each in found}


def with_docstrings(code: str, docstrings: dict[str, str]) -> tuple[str, int]:
    """Return the C code with the docstrings in it, and how many there are."""
    placed: set[str] = set()

    def replacing(literal: Callable[[str, str], str]) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            docstring = docstrings.get(match[1])
            if docstring is None:
                return match[0]
            placed.add(match[1])
            start, end = (edge - match.start() for edge in match.span(match.re.groups))
            new = literal(match[match.re.groups], as_c(docstring))
            return match[0][:start] + new + match[0][end:]

        return replace

    def set_others(match: re.Match[str]) -> str:
        lines = [match[0]]
        if match[1] in docstrings:
            placed.add(match[1])
            lines.append(SET_MODULE_DOCSTRING.format(docstring=as_c(docstrings[match[1]])))
        for name, docstring in docstrings.items():
            prefix, _, own_name = name.rpartition("___")
            if prefix == match[1] and name not in placed:
                placed.add(name)
                lines.append(SET_DOCSTRING.format(name=own_name, docstring=as_c(docstring)))
        return "".join(lines)

    for pattern in (METHOD, CLASS):  # behind the signature, which is there already
        code = pattern.sub(replacing(lambda old, new: old + new), code)
    code = UNSIGNED.sub(replacing(lambda _, new: f'"{new}"'), code)
    code = PROPERTY.sub(replacing(lambda _, new: f'PyDoc_STR("{new}")'), code)  # instead of NULL
    return MODULE_HAS_RUN.sub(set_others, code), len(placed)


def as_c(text: str) -> str:
    """Return the text as the inside of a string literal in C, of ASCII characters only."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
