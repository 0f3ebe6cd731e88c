"""The voice of comments, docstrings and pages: actors are named, and sentences are plain."""

import ast
import functools
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT

pytestmark = pytest.mark.usefixtures("collector_paused")

# A thread, a caller or a piece of code is named by what it is.
NAMELESS = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody)\b", re.IGNORECASE)
FILES = [path for package in LEAVES_AND_ROOF for path in sorted((ROOT / package).rglob("*.py"))]
PAGES = [
    path
    for path in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md")
    if path.parent.name != "api"
]

# Words that stand for another word, which a reader has to look up.
PRO_FORMS = frozenset(
    (
        *("it", "its", "they", "them", "that", "this", "these", "those", "there"),
        *("one", "ones", "other", "others", "another's", "which", "what", "whatever"),
    )
)
# In a dense sentence, of so many words or more, they are this share or more.
LEAST_WORDS = 8
DENSE_SHARE = 0.2

# The bounds: percent of the sentences of a room, of a page and of all pages that may be dense. They
# only go down.
ROOM_BOUND, PAGE_BOUND, ALL_PAGES = 2, 5, 1
# Percent of all words of a package that may be pro-forms.
MOST_PRO_FORMS = 5.5
PAGE_BOUNDS = {
    "CHANGELOG.md": 3,
    "README.md": 3,
}


@functools.cache
def prose(path: Path) -> list[tuple[int, str]]:
    """The comments and docstrings of a file, with their lines."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                found.append((node.body[0].lineno, text))
    return found


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def messages(path: Path, words: int = LEAST_WORDS // 2 + 1) -> list[tuple[int, str]]:
    """The texts of errors, logs and help of a file: of so many words or more."""
    return [
        (part.lineno, part.value)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Raise | ast.Call)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        if part.value.count(" ") >= words - 1
    ]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a page, without code, tables and headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [each for each in re.split(r"\n\s*\n", text) if not each.lstrip().startswith(("|", "#"))]


def sentences(texts: list[str]) -> list[list[str]]:
    """The sentences of some texts, as their words."""
    return [
        [word.lower().strip(".,;:()`'\"*") for word in sentence.split()]
        for text in texts
        for sentence in re.split(r"(?<=[.:;])\s+", text.replace("\n", " "))
    ]


def is_dense(words: list[str]) -> bool:
    """Whether a fifth or more of the words stand for another word."""
    return sum(word in PRO_FORMS for word in words) >= DENSE_SHARE * len(words)


def dense_of(texts: list[str]) -> tuple[float, list[str]]:
    """The percentage of dense sentences, and those."""
    long = [words for words in sentences(texts) if len(words) >= LEAST_WORDS]
    dense = [" ".join(words) for words in long if is_dense(words)]
    return 100 * len(dense) / max(1, len(long)), dense


def room_of(path: Path) -> str:
    """The room of a file: of `purgatory` and its service the folder in it, else the package."""
    parts = path.relative_to(ROOT).parts[:-1]
    depth = 3 if parts[:2] == ("purgatory", "service") else 2 if parts[0] == "purgatory" else 1
    return "/".join(parts[:depth])


@functools.cache
def texts_of_rooms() -> dict[str, list[str]]:
    """What each room says: comments, docstrings and messages, each once a line."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in FILES:
        # Comments of the compiler and the linter are no prose.
        said = dict.fromkeys(
            (line, re.sub(r"^#[:!]? *", "", text))
            for line, text in prose(path) + messages(path)
            if not re.search("noqa|type: ignore|pragma", text)
        )
        found[room_of(path)] += [text for _, text in said]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_actor_is_named(path):
    """No comment or docstring hides a thread, a caller or code behind a pronoun for people."""
    assert [(line, text) for line, text in prose(path) if NAMELESS.search(text)] == []


def test_every_module_says_what_it_is():
    """Each module opens with a docstring."""
    assert [path for path in FILES if not ast.get_docstring(tree_of(path))] == []


# What an operator would have to look up, in messages, and the plain words for it.
HOUSE_WORDS = {
    r"\b(we|us|our|ours)\b": "name the actor",
    r"\blets? (\w+ ){0,2}in\b": "allow, accept",
    r"(?<![Tt]here )\bis no (?!longer)": "is not a",
    r"\b(has|have) not the\b": "lacks",
    r"\btold\b": "delivered, reported",
    r"\bgo(es)? on\b(?! above)": "continues",
    r"\bsays\b": "reports",
    r"\bas many as it takes\b": "the limit, by its name",
    r"\bbrought from\b": "migrated from",
    r"\b(bad|good) news\b": "what is wrong",
    r"\bis there (already|twice)\b": "exists",
    r"\bno .* tells\b": "does not show",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_messages_are_in_the_words_of_operators(path):
    """Errors, logs and help say what happened, to what, and what to do."""
    found = [
        (line, text, plain)
        for line, text in messages(path, words=3)
        for pattern, plain in HOUSE_WORDS.items()
        if re.search(pattern, text)
    ]
    assert found == []


@pytest.mark.parametrize("room", sorted({room_of(path) for path in FILES}))
def test_a_room_has_few_dense_sentences(room):
    """A sentence made of *it*, *that* and *what* is written anew, with its nouns."""
    share, dense = dense_of(texts_of_rooms()[room])
    assert share <= ROOM_BOUND, dense


@pytest.mark.parametrize("package", sorted({room_of(path).split("/")[0] for path in FILES}))
def test_a_package_has_few_pro_forms(package):
    """Few words of a package stand for another word."""
    words = [
        word
        for room, texts in texts_of_rooms().items()
        if room.split("/")[0] == package
        for sentence in sentences(texts)
        for word in sentence
        if word
    ]
    assert 100 * sum(word in PRO_FORMS for word in words) / len(words) <= MOST_PRO_FORMS


def test_the_pages_have_few_dense_sentences():
    """All pages of the documentation together have fewer than each of them may have."""
    texts = [text for path in PAGES[:-2] for text in paragraphs(path.read_text())]
    share, dense = dense_of(texts)
    assert share <= ALL_PAGES, dense


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_few_dense_sentences(page):
    """Likewise on each page; a page without a bound of its own has the common one."""
    share, dense = dense_of(paragraphs(page.read_text()))
    assert share <= PAGE_BOUNDS.get(str(page.relative_to(ROOT)), PAGE_BOUND), dense


def test_what_counts_as_dense():
    """A fifth of the words, in sentences of eight words or more."""
    texts = [
        "What one holds that has gone is for the others.",
        "If a worker's connection is lost, its jobs go to other workers.",
        "What it is that one has.",
    ]
    assert dense_of(texts) == (50.0, ["what one holds that has gone is for the others"])
    page = "# It is that one\n\n| it | that |\n\n```\nit that it\n```\n\nA wait. It ends.\n"
    assert [each.strip() for each in paragraphs(page)] == ["A wait. It ends."]
