"""docs/architecture.txt says what is really imported, and the pictures show what it says."""

import pytest

from scripts.draw_architecture import (
    PICTURES,
    TEXT,
    draw,
    read_imports,
    read_text,
    real_uses,
    write_text,
)

pytestmark = pytest.mark.usefixtures("collector_paused")

SECTIONS = read_text(TEXT.read_text())


def name_of(section):
    """The name of a picture."""
    return section.title


@pytest.fixture(scope="module")
def imports():
    """What the modules import, read from their source."""
    return read_imports()


@pytest.mark.parametrize("section", SECTIONS, ids=name_of)
def test_the_arrows_are_the_imports(section, imports):
    """After a change of imports: scripts/draw_architecture.py --update."""
    uses = real_uses(section, imports)
    assert {room.name: set(room.uses) for room in section.rooms} == uses


@pytest.mark.parametrize("section", SECTIONS, ids=name_of)
def test_the_picture_is_drawn_from_the_text(section):
    """After a change of the text: scripts/draw_architecture.py."""
    assert (PICTURES / f"{section.title}.svg").read_text() == draw(section)


def test_every_folder_of_modules_is_a_room():
    """None is forgotten, at the levels that have a picture."""
    for section in SECTIONS:
        folder = TEXT.parents[1].joinpath(*section.package.split("."))
        if section.package:
            there = {path.parent.name for path in folder.glob("*/*.py")}
            assert there <= {module for room in section.rooms for module in room.modules}


def test_reading_and_writing_the_text_are_inverse():
    """So that an update changes nothing but the arrows."""
    text = TEXT.read_text()
    comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert write_text(SECTIONS, comment) == text


def test_a_circle_is_refused():
    """There is no way to draw it with all arrows down."""
    (section,) = read_text("knot: two rooms\n    a  one  -> b\n    b  other  -> a\n")
    with pytest.raises(ValueError, match="a circle: a -> b -> a"):
        draw(section)
