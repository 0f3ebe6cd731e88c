"""The console's files: what is served, and with which headers."""

import re
from importlib import resources

import httpx
import pytest

from purgatory.service.gateway.console.files import console_files

FOLDER = resources.files("purgatory.service.gateway") / "console" / "page"
FILES = console_files()


def test_all_are_served(gateway):
    """Each with its type, and without a token."""
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for path in FILES:
        answer = httpx.get(gateway.url + path)
        kind = types.get(path.rpartition(".")[2], "text/html")
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == kind
    assert httpx.get(f"{gateway.url}/console/nothing.js").status_code == 404
    assert httpx.get(f"{gateway.url}/console/../console/console.js").status_code == 200
    assert httpx.get(f"{gateway.url}/console/%2e%2e/server.py").status_code == 404
    assert httpx.post(f"{gateway.url}/console").status_code == 405


@pytest.mark.parametrize("path", FILES)
def test_headers(path):
    """Nothing from elsewhere, no inline script, no frame, no cache, no referrer."""
    headers = FILES[path].headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_the_page_names_files_that_exist():
    """The page has no inline script or style."""
    page = (FOLDER / "index.html").read_text()
    named = set(re.findall(r'(?:href|src)="(/[^"]+)"', page))
    assert named <= FILES.keys()
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", page)


def test_all_modules_are_one_file():
    """The page has one script, so the browser asks once."""
    [script] = [path for path in FILES if path.endswith(".js")]
    text = FILES[script].body.decode()
    for each in FOLDER.glob("*.js"):
        assert f"// {each.name}\n" in text
    assert "import" not in re.sub(r"//.*", "", text)


def test_no_text_becomes_markup():
    """No file uses what parses a text as markup or as a program, or keeps a token elsewhere."""
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc"
    places = r"localStorage|document\.cookie|indexedDB|EventSource"
    for each in FOLDER.iterdir():
        found = re.findall(f"{sinks}|{places}", re.sub(r"//.*", "", each.read_text()))
        assert found == [], each.name
