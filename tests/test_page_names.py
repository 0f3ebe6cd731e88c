"""What the pages name exists: names of code, files, threads, packages, installed pages."""

import ast
import fnmatch
import re
import tomllib
from functools import cache

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF
from tests.test_docs import FENCE, PAGES, ROOT, name_of

PACKAGES = ("_purgatory_cpython", *LEAVES_AND_ROOF)
# Names of other projects and of systems.
FOREIGN = {
    "docs/spark.md": {
        *("ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", "INVALID_HANDLE"),
        *("grpcio", "zstandard"),
    },
    "docs/asyncio.md": {"gthread"},
    "docs/library.md": {"post_fork"},
    "docs/service.md": {
        "Recreate",
        "RuntimeMaxSec",
        "close_old_connections",
        "process_cpu_seconds_total",
    },
    "docs/atomicity.md": {"CFLAGS", "LDFLAGS"},
    "docs/howto/web-timeouts.md": {"request.is_disconnected"},
    "docs/performance.md": {"ScheduledThreadPoolExecutor"},
    "docs/protocol.md": {"kind_room"},  # one of `kind_rooms`
    "docs/troubleshooting.md": {"LimitNOFILE"},
    "docs/why.md": {"EXPIRE"},
    "CONTRIBUTING.md": {"_ns", "_s"},  # ends of names
}
# Tables of what other programs have, the client of Prometheus among them.
OTHERS = {"docs/coming-from.md", "docs/reference/metrics.md"}
# The columns of a table of mq.md, which tests/mq/test_mq.py compares with pyzmq.
LACKING = re.compile(r"^\| (?:`zmq|modules).*$", re.MULTILINE)


@cache
def sources():
    """Return all text of the code, of tests and of what lies beside."""
    endings = ("*.py", "*.c", "*.h", "*.js", "*.yml", "*.pml")
    folders = (*PACKAGES, "tests", "benchmarks", "scripts", "docs/deploy", "docs/model")
    found = [
        path.read_text(encoding="utf-8")
        for folder in folders
        for ending in endings
        for path in (ROOT / folder).rglob(ending)
        if path.name != "test_page_names.py"
    ]
    return set(re.findall(r"\w+", "\n".join(found)))


def known_as(name):
    """Return what a name may be in the sources: the names of metrics are put together there."""
    last = name.strip(".").split(".")[-1]
    return {last, last.removesuffix("_total"), last.removeprefix("purgatory_cluster_")}


@pytest.mark.parametrize(
    "page", [each for each in PAGES if name_of(each) not in OTHERS], ids=name_of
)
def test_a_name_on_a_page_is_one_of_the_code(page):
    """A word in code type that looks like a name stands in the sources, or is listed as foreign."""
    text = LACKING.sub("", FENCE.sub("", page.read_text()))
    named = set(re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text))
    unknown = {name for name in named if not known_as(name) & sources()}
    assert unknown == FOREIGN.get(name_of(page), set())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_path_on_a_page_is_one_of_the_tree(page):
    """A path in code type is a file, from the root or from a folder of the packages."""
    paths = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|h|c|json|ya?ml|pml|txt))`", page.read_text())
    folders = [ROOT, page.parent, ROOT / "tests", *(ROOT / each for each in PACKAGES)]
    folders += [ROOT / "purgatory" / "core", ROOT / "purgatory" / "service"]
    missing = [path for path in paths if not any((each / path).exists() for each in folders)]
    assert missing == []


def threads_of_the_service():
    """Return the names that the code gives to threads, with NAME for what is inserted."""
    found = set()
    for path in (ROOT / "purgatory" / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            text = node.value if isinstance(node, ast.Constant) else ast.unparse(node)[2:-1]
            text = re.sub(r"{[^}]*}", "NAME", str(text))
            if re.fullmatch(
                r"(service|purgatory)-(network|store|watchdog|member|standby|lease|http|zap)"
                r"|NAME-(io|leases|worker|loop)",
                text,
            ):
                # A worker names the threads of its handlers after its own thread.
                found.add(text.replace("NAME-loop", "NAME-worker-loop"))
    return found


def test_the_threads_of_the_design():
    """The table has each thread of the service, and no other."""
    page = (ROOT / "docs" / "design.md").read_text()
    table = page[page.index("| thread | owner |") :].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    listed = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert len(threads_of_the_service()) > 10
    assert threads_of_the_service() - listed == set()
    assert {each for each in listed if each.startswith("service-")} <= threads_of_the_service()


def test_the_labels_of_the_console():
    """Each view, field and button of the table of tasks is one of the console's code."""
    page = (ROOT / "docs" / "console.md").read_text()
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")]
    labels = {label for row in rows for label in re.findall(r"\*([^*]+)\*", row)}
    console = ROOT / "purgatory" / "service" / "gateway" / "console" / "page"
    code = "".join(path.read_text() for path in sorted(console.glob("*.*")))
    shown = re.sub(r"\$\{[^}]*\} ?", "", code)
    assert len(labels) > 12
    assert {label for label in labels if label not in shown} == set()


def test_the_pages_are_installed():
    """Each page but the reference, which is made of the code, and each file for deployment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = [
        each for names in project["tool"]["setuptools"]["data-files"].values() for each in names
    ]
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "deploy").rglob("*.*")]
    missing = {
        name
        for path in files
        if path.is_file() and path.parent.name != "api"
        for name in [name_of(path)]
        if not any(
            fnmatch.fnmatch(name, each) and name.count("/") == each.count("/") for each in patterns
        )
    }
    assert missing == set()


@pytest.mark.parametrize("page", ["README.md", "docs/versions.md"])
def test_the_packages_that_are_installed(page):
    """All top-level packages of the distribution are named."""
    text = (ROOT / page).read_text()
    assert [each for each in PACKAGES if f"`{each}`" not in text] == []


def lines_of(cell):
    """Return the lines of the files in a cell of a table; None if it names parts of files."""
    if "(" in cell or ";" in cell or "/`" in cell:
        return None
    total = 0
    for name in re.findall(r"`([\w./]+)`", cell):
        found = [each for each in (ROOT / name, *ROOT.glob(f"*/{name}")) if each.is_file()]
        if not found:
            return None
        total += len(found[0].read_text().splitlines())
    return total


def test_the_lines_of_the_mechanisms():
    """Where a mechanism is whole files, their lines are those of the tree, a tenth more or less."""
    page = (ROOT / "docs" / "mechanisms.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    wrong = {}
    for row in rows:
        stated, counted = row[2].strip(), lines_of(row[1]) if row[1].count("`") else None
        if stated.isdecimal() and counted and not 0.9 < int(stated) / counted < 1.1:
            wrong[row[0].strip()] = (stated, counted)
    assert wrong == {}


def model_rows():
    """Return of `From the model to the code` the methods and the code that is quoted of them."""
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+? \| (`(?:YPipe|Mailbox)\.[^|]+) \| (`[^|]+) \|$", page, re.MULTILINE)
    return [tuple(re.findall(r"`([^`]+)`", cell) for cell in row) for row in rows]


@pytest.mark.parametrize(("methods", "codes"), model_rows())
def test_the_model_is_that_of_the_code(methods, codes):
    """What a row quotes of a method stands in one of its methods."""
    owner = methods[0].split(".")[0]
    source = (ROOT / f"mq/queues/{owner.lower()}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    names = {method.split(".")[-1] for method in methods}
    text = "\n".join(ast.unparse(one) for one in functions if one.name in names)
    for code in codes:
        assert code in text, code


def test_the_list_of_locks():
    """The file that a row names makes a lock."""
    page = (ROOT / "docs/locks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| the (?:read/write )?lock.*$", page, re.MULTILINE)
    files = [name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)]
    assert len(files) > 2
    for name in files:
        source = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(r"new_\w*(?:lock|condition)|def acquire|Lock\(", source), name


def files_of_rows(page):
    """Return the files that each row of a table names: (row, first file, further files)."""
    rows = re.findall(r"^\|.*\.py`.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    found = [re.findall(r"`([\w/]+\.py)`", row) for row in rows]
    return [(row, files[0], files[1:]) for row, files in zip(rows, found, strict=True)]


@pytest.mark.parametrize(
    ("row", "first", "others"), files_of_rows(ROOT / "docs" / "architecture.md")
)
def test_a_row_names_its_files(row, first, others):
    """The first by its path, the others from a folder of the first."""
    assert (ROOT / first).exists(), row
    folders = (ROOT / first).parents
    assert [name for name in others if not any((one / name).exists() for one in folders)] == []
