#!/usr/bin/env python3
"""Render the README of an archive of sources as a package index does, and look at the page.

    scripts/check_readme.py ARCHIVE PAGE.html

Needs `readme_renderer[md]`, as package indexes use it. One thread.
"""

import importlib
import re
import sys
import tarfile
from email import message_from_bytes
from pathlib import Path

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def description_of(archive: Path) -> str:
    """Return the README in the metadata of an archive."""
    with tarfile.open(archive) as files:
        name = min((each for each in files.getnames() if each.endswith("/PKG-INFO")), key=len)
        metadata = files.extractfile(name)
        assert metadata is not None
        text = message_from_bytes(metadata.read()).get_payload(decode=True)
        assert isinstance(text, bytes)
        return text.decode()


def faults(text: str, page: str | None) -> list[str]:
    """Return what the page of a README lacks, or has and should not."""
    if not page:
        return ["the README cannot be rendered"]
    outside = FENCE.sub("", text)
    expected = {
        "<pre": len(FENCE.findall(text)),
        "<table": len(re.findall(r"^\|[-|: ]+\|$", outside, re.MULTILINE)),
        "<h2": len(re.findall(r"^## ", outside, re.MULTILINE)),
    }
    found = {tag: page.count(tag) for tag in expected}
    lost = [f"{tag}>: {found[tag]}; expected {n}" for tag, n in expected.items() if found[tag] != n]
    links = re.findall(r'(?:href|src)="(?!https?:|#|mailto:)([^"]*)"', page)
    return [*lost, *(f"link to {link}, which the index lacks" for link in links)]


def outside_links(pages: list[Path]) -> dict[str, int]:
    """Return how many links of some pages lead to each other host."""
    found: dict[str, int] = {}
    for page in pages:
        for host in re.findall(r"\]\(https?://([^/)]+)", page.read_text(encoding="utf-8")):
            found[host] = found.get(host, 0) + 1
    return found


def main(archive: Path, page: Path) -> int:
    """Write the page; return 1 if it has faults."""
    markdown = importlib.import_module("readme_renderer.markdown")  # of the release's tools
    text = description_of(archive)
    rendered = markdown.render(text)
    page.write_text(f"<!doctype html><meta charset=utf-8>{rendered}", encoding="utf-8")
    found = faults(text, rendered)
    for fault in found:
        print(f"README: {fault}", file=sys.stderr)
    if found:
        return 1
    print(page)
    pages = [Path("README.md"), Path("CHANGELOG.md"), *Path("docs").rglob("*.md")]
    for host, count in sorted(outside_links(pages).items()):
        print(f"not checked, as it needs the network: {count} links to {host}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
