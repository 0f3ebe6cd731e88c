"""The voice of comments and docstrings: each sentence names its actor (CONTRIBUTING.md)."""

import ast
import re
import tokenize
from pathlib import Path

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT

pytestmark = pytest.mark.usefixtures("collector_paused")

# A thread, a caller or a piece of code is named by what it is.
NAMELESS = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody)\b", re.IGNORECASE)
FILES = [path for package in LEAVES_AND_ROOF for path in sorted((ROOT / package).rglob("*.py"))]


def prose(path: Path) -> list[tuple[int, str]]:
    """The comments and docstrings of a file, with their lines."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                found.append((node.body[0].lineno, text))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_actor_is_named(path):
    """No comment or docstring hides a thread, a caller or code behind a pronoun for people."""
    assert [(line, text) for line, text in prose(path) if NAMELESS.search(text)] == []


def test_every_module_says_what_it_is():
    """Each module opens with a docstring."""
    assert [path for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))] == []
