"""The console's modules as a single file: a browser asks once, not once a module.

Each module becomes a block with its own names, after its imports. The modules keep to the forms of
import and export below. Any thread.
"""

import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_EXPORT_AGAIN: Final = re.compile(r"^export \{ ([\w, ]+) \};$", re.MULTILINE)
_LEFT: Final = re.compile(r"^\s*(import|export)\b.*", re.MULTILINE)


def bundle(modules: Mapping[str, str], first: str) -> str:
    """Return the module `first` with its imports as a single module; `modules`: by file name.

    Raises ValueError for another form of import or export, or a missing file.
    """
    blocks: dict[str, str] = {}
    _add(blocks, modules, first)
    return "\n".join(blocks.values())


def _add(blocks: dict[str, str], modules: Mapping[str, str], name: str) -> None:
    if name in blocks:
        return
    if name not in modules:
        raise ValueError(f"{name} is imported; expected one of {', '.join(modules)}")
    for _, imported in _IMPORT.findall(modules[name]):
        _add(blocks, modules, imported)
    blocks[name] = _block(name, modules[name])


def _block(name: str, text: str) -> str:
    exported = [found[1] for found in _EXPORT.findall(text)]
    for again in _EXPORT_AGAIN.findall(text):
        exported += again.split(", ")
    body = _IMPORT.sub(lambda found: f"const {{ {found[1]} }} = {_variable(found[2])};", text)
    body = _EXPORT_AGAIN.sub("", _EXPORT.sub(r"\1", body))
    if left := _LEFT.search(body):
        raise ValueError(f"{name} has {left[0].strip()!r}; expected import {{ a }} from, or export")
    return (
        f"const {_variable(name)} = (() => {{ // {name}\n"
        f"{body}\nreturn {{ {', '.join(exported)} }};\n}})();"
    )


def _variable(name: str) -> str:
    return f"${name.removesuffix('.js')}"
