"""Tests of `scripts/check_readme.py`: a README that an index would show otherwise is noticed."""

import io
import tarfile

import pytest

from scripts.check_readme import description_of, faults, outside_links

TEXT = "# A\n\n## B\n\n| a |\n|---|\n| 1 |\n\n```python\n## no heading\n```\n"
PAGE = '<h1>A</h1><h2>B</h2><table></table><pre></pre><a href="https://x.org/">x</a>'


def test_a_page_with_all_parts():
    """Tables, blocks and headings are there, and links lead to other hosts."""
    assert faults(TEXT, PAGE) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (None, "cannot be rendered"),
        (PAGE.replace("<table></table>", "| a |"), "<table>: 0; expected 1"),
        (PAGE.replace("<pre></pre>", ""), "<pre>: 0; expected 1"),
        (PAGE.replace("<h2>B</h2>", "## B"), "<h2>: 0; expected 1"),
        (PAGE + '<a href="docs/why.md">', "link to docs/why.md"),
        (PAGE + '<img src="a.svg">', "link to a.svg"),
    ],
)
def test_a_fault_is_named(page, fault):
    """What is lost, and links to files."""
    assert fault in faults(TEXT, page)[0]


def test_the_description_of_an_archive(tmp_path):
    """The metadata at the top of the archive, not those of a directory in it."""
    archive = tmp_path / "a-1.tar.gz"
    with tarfile.open(archive, "w:gz") as files:
        for name, text in (("a-1/a.egg-info/PKG-INFO", "other"), ("a-1/PKG-INFO", "# A ä\n")):
            content = f"Metadata-Version: 2.4\nName: a\n\n{text}".encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    assert description_of(archive) == "# A ä\n"


def test_links_to_other_hosts_are_counted(tmp_path):
    """By host; links to files and headings are checked elsewhere."""
    page = tmp_path / "a.md"
    page.write_text("[a](https://x.org/1) [b](b.md) [c](#c) [d](http://x.org) [e](https://y.org/)")
    assert outside_links([page]) == {"x.org": 2, "y.org": 1}
