"""Texts of others: no character does anything to a terminal or to the lines of a log."""

import json
import unicodedata

import pytest

from purgatory.printable import counted, printable, printable_json

#: A line break, an escape sequence, one that writes the clipboard, one of C1, marks of direction.
HOSTILE = [
    "a\n2026-11-26 09:00:00,000 INFO purgatory: all is well",
    "a\r\nb",
    "a\x1b[2Jb",
    "a\x1b]52;c;ZWNobw==\x07b",
    "a\x9b31mb",
    "a\u202eb\u2066c",
    "a\u2028b\x85c\x0bd",
    "a\x00b\x7fc\ud800d",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text(text):
    """It is one line without control characters, and can be encoded; JSON keeps its content."""
    for shown in (printable(text), line := printable_json(json.dumps({"a": text}))):
        assert shown.isprintable()
        assert shown.encode().decode().splitlines() == [shown]
    assert json.loads(line) == {"a": text}


def test_all_characters():
    """Each one that a terminal acts on is written as Python does; all others stay."""
    for code in [*range(0x3000), *range(0xD800, 0xE000), 0xFEFF]:
        letter = chr(code)
        acts = (
            unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(letter) in BIDI
            or code in (0x061C, 0x200E, 0x200F, 0xFEFF)
        )
        assert (printable(letter) != letter) == acts, hex(code)
    assert printable("Grüße, 東京 👩\u200d🚀 \\n") == "Grüße, 東京 👩\u200d🚀 \\n"
    assert printable("\n\x1b\u202e\ud800") == r"\n\x1b\u202e\ud800"


BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (2000.0, "2,000 jobs")]
)
def test_numbers_of_things(count, said):
    """One is no plural."""
    assert counted(count, "job") == said
