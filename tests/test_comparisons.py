"""What the pages say of other projects names its source: which version, of which day."""

import re

import pytest

from tests.test_docs import PAGES, name_of

# How tables call other projects, and how their sources call them.
PROJECTS = {
    r"^`?asyncio|times asyncio|standard library|`sched`|threading\.Timer": "CPython",
    "APScheduler": "APScheduler",
    "beanstalkd": "beanstalkd",
    "BullMQ": "BullMQ",
    "Celery": "Celery",
    "Dramatiq": "Dramatiq",
    "DuckDB": "DuckDB",
    "gevent": "gevent",
    "JDK": "JDK",
    "Kafka": "Kafka",
    "libzmq": "libzmq",
    "Netty": "Netty",
    "Oban": "Oban",
    "pandas": "pandas",
    "pyzmq": "pyzmq",
    "Redis": "Redis",
    "River": "River",
    r"\bRQ\b": "RQ",
    "Sidekiq": "Sidekiq",
    "^Spark": "Spark",
    "uvloop": "uvloop",
}
# `Celery 5.6.2 (2026-08-08)`, `CPython\n3.11 (2026-11, from ...)`
VERSION = r"{}\s+(\d[\w.]*|4 trunk)\s+\(\d{{4}}-\d\d(-\d\d)?\b"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
# Pages whose tables say what others do, which their sources show; other pages have measured it.
OF_FEATURES = {"docs/coming-from.md", "docs/mq.md", "docs/why.md"}
# A table of commands, and one of the library's own API on an event loop.
NOT_COMPARED = {"README.md", "docs/index.md", "docs/api/index.md", "docs/spark.md: command"}


def projects_of(table):
    """Return the projects that the header of a table names, or else its first column."""
    header, *rows = (line.strip("|\n").split("|") for line in table.splitlines())
    return projects_in(header) or projects_in([row[0] for row in rows])


def projects_in(cells):
    """Return the projects that some cells name."""
    named = PROJECTS.items()
    return {project for cell in cells for name, project in named if re.search(name, cell.strip())}


def compared(page):
    """Yield the tables that compare, with their projects and the text of their section."""
    for section in re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE):
        for match in TABLE.finditer(section):
            header = match[0].split("|")[1].strip()
            if name_of(page) in NOT_COMPARED or f"{name_of(page)}: {header}" in NOT_COMPARED:
                continue
            if projects := projects_of(match[0]):
                yield match[0], projects, section


def has_source(project, text):
    """Tell whether a text names a version and a day of a project."""
    return re.search(VERSION.format(project), text) is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_comparison_names_version_and_day(page):
    """In its section, if it says what others do; on its page, if it has measured them."""
    for table, projects, section in compared(page):
        text = section if name_of(page) in OF_FEATURES else page.read_text()
        missing = {each for each in projects if not has_source(each, text)}
        assert missing == set(), table


@pytest.mark.parametrize("page", sorted(OF_FEATURES))
def test_a_statement_of_what_others_do_has_a_link(page):
    """Each section with such a table links to the project at that version."""
    found = 0
    for path in PAGES:
        for _, _, section in compared(path) if name_of(path) == page else ():
            found += 1
            assert re.search(r"\]\(https://", section) or "compared by a test" in section
    assert found


def test_the_tables_are_found():
    """Each of the known comparisons is one for these tests, and each project is met."""
    found = [(name_of(page), projects) for page in PAGES for _, projects, _ in compared(page)]
    met = set().union(*(projects for _, projects in found))
    assert set(PROJECTS.values()) - met == set()
    assert len([page for page, _ in found if page == "docs/coming-from.md"]) == 8


def test_what_counts_as_a_source():
    """A version without a day is none, nor is a day without a version."""
    assert has_source("Celery", "Source: Celery 5.6.2 (2026-08-08): [calls](https://x)")
    assert not has_source("Celery", "Source: Celery 5.6.2: [calls](https://x)")
    assert not has_source("Celery", "Source: Celery (2026-08-08): [calls](https://x)")
    assert projects_of("| Celery | here |\n|---|---|\n| beat | `repeat` |\n") == {"Celery"}
