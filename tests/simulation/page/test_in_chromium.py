"""The page of a history in a browser: nothing is cut off, nothing else is loaded."""

import os
import shutil

import pytest

from tests.simulation import __main__ as command
from tests.simulation.key_effects import KeyEffects
from tests.testing.purgatory_harness import HANG

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api")
if CHROMIUM is None and "CI" not in os.environ:
    pytest.skip("there is no chromium here", allow_module_level=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the page of a seed that fails, as the command writes it."""
    file = tmp_path_factory.mktemp("page") / "seed.html"
    with pytest.MonkeyPatch.context() as patch:
        # Each completion is held to be late.
        patch.setattr(KeyEffects, "first_ns", lambda *_: 0)
        assert command.main(["--first", "3", "--seconds", "20", "--page", str(file)]) == 1
    return file.as_uri()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Open the page; check that it had no error, and loaded nothing else."""
    contexts, troubles, asked = [], [], []

    def visit(width, media="screen", colours="light"):
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=colours)
        context.set_default_timeout(HANG * 1000)
        contexts.append(context)
        page = context.new_page()
        page.emulate_media(media=media)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else 0)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert troubles == []
    assert set(asked) == {address}


@pytest.mark.parametrize(("width", "media"), [(390, "screen"), (1280, "screen"), (720, "print")])
def test_nothing_is_cut_off(visit, width, media):
    """On a phone, a desk and on paper, no part is wider than the page; texts can be read."""
    page = visit(width, media)
    wide = """() => [...document.querySelectorAll('main *')].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width && box.right > document.documentElement.clientWidth + 1;
    }).map(one => one.outerHTML.slice(0, 200))"""
    assert page.evaluate(wide) == []
    shown = "svg.narrow" if width == 390 else "svg.wide"
    assert page.locator(f"{shown} text").first.bounding_box()["height"] >= 7
    assert page.locator(shown).is_visible()


def test_a_violation_is_seen(visit):
    """At the top and on the time line, with what was broken as its title."""
    page = visit(1280)
    assert page.locator("p.broken").inner_text().startswith("Violation: at")
    assert page.locator("svg.wide .violation text").is_visible()
    assert "Violation" in page.locator("svg.wide .violation title").text_content()


def test_light_and_dark(visit):
    """As the reader has it."""
    colour = "getComputedStyle(document.body).backgroundColor"
    assert visit(1280).evaluate(colour) == "rgb(255, 255, 255)"
    assert visit(1280, colours="dark").evaluate(colour) == "rgb(20, 23, 27)"
