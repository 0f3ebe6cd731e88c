"""The law of the house: no circle of imports, no arrow that runs up, one name for one thing."""

import ast
import re
from collections import Counter, defaultdict

import pytest

from scripts.draw_architecture import LEAVES_AND_ROOF, ROOT
from tests.testing.import_graph import circles, classes, imports, modules

pytestmark = pytest.mark.usefixtures("collector_paused")

MODULES = modules()

# From the highest floor to the lowest. A name is a module; with `.*` it is a room: the package of
# this name and all in it, but for what is named apart. An import may stay inside an entry or go
# down to a lower floor; entries of one floor do not know each other.
FLOORS = {
    "timingwheel": [
        ["timingwheel"],
        ["timingwheel.lowlevel"],
        ["timingwheel.*"],
        ["timingwheel._cpython.*"],
        ["_purgatory_cpython.*"],
    ],
    "mq": [
        ["mq.*"],
        ["mq.sockets.*"],
        ["mq.core.*"],
        ["mq.pipes.*"],
        ["mq.queues.*"],
        ["mq.errors mq.constants mq.timeouts"],
        ["_purgatory_cpython.*"],
    ],
    "purgatory": [
        ["purgatory.__main__"],
        ["purgatory.cli.*"],
        ["purgatory.testing.*"],
        ["purgatory"],
        ["purgatory.spark.*", "purgatory.service.*", "purgatory.replay.*", "purgatory.aio.*"],
        ["purgatory.journal.*"],
        ["purgatory.trace.*", "purgatory.core.*", "purgatory.cron.*"],
        ["purgatory.bus.*", "purgatory.metrics"],
        [
            (
                "purgatory.registry purgatory.foreign_packages purgatory.errors "
                "purgatory.durations purgatory.durable_files purgatory.printable purgatory.version "
                "purgatory.console purgatory.loop_callbacks"
            )
        ],
    ],
    "purgatory.service": [
        ["purgatory.service"],
        ["purgatory.service.daemon"],
        ["purgatory.service.gateway.*", "purgatory.service.cluster.*"],
        ["purgatory.service.server_assembly", "purgatory.service.store_copy.*"],
        ["purgatory.service.http.*", "purgatory.service.worker.*"],
        [
            "purgatory.service.server.*",
            "purgatory.service.client.*",
            "purgatory.service.backup",
        ],
        ["purgatory.service.auth.*", "purgatory.service.store.*"],
        ["purgatory.service.tracing", "purgatory.service.platform"],
        [
            (
                "purgatory.service.config purgatory.service.machine_memory "
                "purgatory.service.portions purgatory.service.nesting purgatory.service.rare_log "
                "purgatory.service.monitor_messages "
                "purgatory.service.process_metrics "
                "purgatory.service.forked_child "
                "purgatory.service.protocol purgatory.service.job_messages purgatory.service.verbs "
                "purgatory.service.troubles "
                "purgatory.service.encoding "
                "purgatory.service.errors"
            )
        ],
    ],
    "purgatory.spark": [
        [
            "purgatory.spark.report.*",
            "purgatory.spark.stream.*",
            "purgatory.spark.batch.*",
            "purgatory.spark.read.*",
        ],
        ["purgatory.spark.tables.*"],
        ["purgatory.spark.*"],
    ],
}
# As in pyzmq, where `zmq.asyncio` has classes of the names of those that it wraps.
TWINS = {("mq", "Context"), ("mq", "Poller"), ("mq", "Socket")}
CORE = "purgatory.core"
NAMED_TUPLES = {"_make", "_replace"}
MODES = {"COMPILED", "ATOMIC_SECTIONS", "LOCKED_SECTIONS"}
MOST_BRANCHES = 40  # that read one of these
MOST_LINES = 440  # of a file without a reason: the rule, and a tenth
MOST_FILES = 20  # Python files of a room, at one level, its `__init__` not counted


def position(module: str, floors: list[list[str]]) -> tuple[int, int] | None:
    """The floor of a module and the entry on it, by the longest name that fits."""
    best, found = -1, None
    for floor, entries in enumerate(floors):
        for number, entry in enumerate(entries):
            for name in entry.split():
                room = name.removesuffix(".*")
                inside = name != room and module.startswith(f"{room}.")
                # An exact name beats the room of the same name.
                length = 2 * len(room) + (name == room)
                if (module == room or inside) and length > best:
                    best, found = length, (floor, number)
    return found


def test_a_long_file_says_why():
    """Well past 400 lines a module's docstring gives the reason."""
    long = {
        module: text
        for module, path in MODULES.items()
        if (text := path.read_text(encoding="utf-8")).count("\n") > MOST_LINES
    }
    reason = re.compile(r"(Past|More than) 400 lines: \w")
    assert [module for module, text in long.items() if not reason.search(text)] == []


def test_no_circle():
    """Imports have no circle, those under TYPE_CHECKING counted."""
    assert circles(imports()) == []


def test_circles_are_found():
    """The search finds a circle of two, one of three, and none where there is none."""
    graph = {"a": "b", "b": "c", "c": "ab", "d": "ae", "e": "d", "f": "ad"}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": "bc", "b": "c", "c": ""}) == []


@pytest.mark.parametrize("house", FLOORS)
def test_every_module_has_a_floor(house):
    """A new module or room is entered in FLOORS, or it lies in a room that is."""
    homeless = [
        module
        for module in MODULES
        if module.startswith(house) and position(module, FLOORS[house]) is None
    ]
    inner = [module for module in homeless if module == house or module[len(house)] == "."]
    assert inner == []


@pytest.mark.parametrize("house", FLOORS)
def test_no_arrow_runs_up(house):
    """A module imports its own room and lower floors."""
    wrong = []
    for module, targets in imports().items():
        here = position(module, FLOORS[house])
        for target in targets:
            there = position(target, FLOORS[house])
            if here and there and here != there and here[0] >= there[0]:
                wrong.append(f"{module} -> {target}")
    assert wrong == []


@pytest.mark.parametrize("package", LEAVES_AND_ROOF)
def test_one_name_one_class(package):
    """No two classes of a package have one name."""
    homes = defaultdict(list)
    own = {name: path for name, path in MODULES.items() if name.split(".")[0] == package}
    for module, name in classes(own):
        if (package, name) not in TWINS:
            homes[name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_room_is_crowded():
    """What lies at one level can be read at a glance."""
    counts = Counter(path.parent.relative_to(ROOT) for path in MODULES.values())
    crowded = {str(room): count - 1 for room, count in counts.items() if count - 1 > MOST_FILES}
    assert crowded == {}


def fields_set(tree):
    """Yield the private attributes that a module sets or declares."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield part.target.id
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value  # among them the names of slots


def room_of(module):
    """Return the room of a module: its first two names."""
    return ".".join(module.split(".")[:2])


def test_no_other_room_uses_private_fields():
    """What `aio`, `replay`, the service and others need of the core has a name."""
    trees = {
        module: ast.parse(path.read_text(encoding="utf-8"))
        for module, path in MODULES.items()
        if room_of(module).startswith("purgatory.")
    }
    fields, methods = defaultdict(set), defaultdict(set)
    for module, tree in trees.items():
        private = {name for name in fields_set(tree) if name[:1] == "_" != name[1:2]}
        fields[room_of(module)] |= private - NAMED_TUPLES
        methods[room_of(module)] |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }
    used = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in trees.items()
        if room_of(module) != CORE
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in fields[CORE]
        and (
            node.attr.startswith("_op_")
            or node.attr not in fields[room_of(module)] | methods[room_of(module)]
        )
    ]
    assert "_parts" in fields[CORE]
    assert used == []


def branches(path):
    """Yield the line of each `if` and conditional expression that reads a build mode."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            if names & MODES:
                yield node.lineno


def test_the_build_mode_is_asked_in_few_places():
    """Code that differs by the build is behind a helper or in a class of its own."""
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in MODULES.values() for line in branches(path)
    ]
    assert 0 < len(found) <= MOST_BRANCHES, found


def test_threads_are_interruptible():
    """None keeps an interpreter from ending, and none is left broken by an interrupt."""
    texts = {path.relative_to(ROOT): path.read_text("utf-8") for path in MODULES.values()}
    assert [str(path) for path, text in texts.items() if "threading.Thread(" in text] == []


def test_no_dict_is_a_queue():
    """A dict finds its first entry by a scan of all that was removed before it."""
    first_removed = re.compile(r"del (\S+)\[next\(iter\(\1\)\)\]|(\S+)\.pop\(next\(iter\(\2\)\)")
    texts = {path.relative_to(ROOT): path.read_text("utf-8") for path in MODULES.values()}
    assert [str(path) for path, text in texts.items() if first_removed.search(text)] == []
    assert first_removed.search("del self._gone[next(iter(self._gone))]")
    assert first_removed.search("old.pop(next(iter(old)))")
