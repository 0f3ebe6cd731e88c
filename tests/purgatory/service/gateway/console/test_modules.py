"""The console's modules in node, before a document that only keeps its nodes."""

import json
import os
import shutil
import subprocess
from functools import cache
from importlib import resources

import pytest

from purgatory.service.gateway.console.bundle import bundle

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None and "CI" not in os.environ, reason="there is no node"
)

#: Nodes with their children, and a gateway whose answers come when a test says so.
DOCUMENT = r"""
class Node {
  constructor(name = "") {
    Object.assign(this, { name, childNodes: [], dataset: {}, listeners: {} });
  }
  get children() { return this.childNodes.filter((each) => each instanceof Node); }
  get childElementCount() { return this.children.length; }
  get firstElementChild() { return this.children[0] ?? null; }
  get textContent() { return this.childNodes.map((each) => each.textContent ?? each).join(""); }
  set textContent(text) { this.childNodes = [text]; }
  append(...nodes) { this.childNodes.push(...nodes); }
  replaceChildren(...nodes) { this.childNodes = nodes; }
  setAttribute(name, value) { this[name] = value; }
  removeAttribute(name) { delete this[name]; }
  getAttribute(name) { return this[name] ?? null; }
  addEventListener(name, call) { this.listeners[name] = call; }
  contains() { return false; }
  querySelector() { return new Node(); }
  querySelectorAll() { return []; }
  remove() {}
  focus() {}
}
const ids = {};
globalThis.document = {
  activeElement: null,
  createElement: (name) => new Node(name),
  getElementById: (id) => (ids[id] ??= new Node(id)),
  querySelector: () => new Node(),
};
document.getElementById("troubles").append(new Node("ul"));
const listeners = {};
globalThis.window = { addEventListener(name, call) { listeners[name] = call; } };
globalThis.location = { hash: "" };
globalThis.matchMedia = () => ({ matches: false });
let token = process.argv.at(-1);
globalThis.sessionStorage = {
  getItem: () => token,
  setItem(_, text) { token = text; },
  removeItem() { token = null; },
};
const given = {}; // texts by path
const answers = {};
globalThis.fetch = (where, { headers }) => new Promise((resolve) => {
  new Headers(headers); // raises as a browser's fetch
  const path = where.split("?")[0];
  if (given[path]) resolve(new Response(given[path]));
  answers[path] = (body, status = 200) => resolve(new Response(JSON.stringify(body), { status }));
});
const settled = () => new Promise((resolve) => setImmediate(resolve));
const go = (hash) => { location.hash = hash; listeners.hashchange(); };
const shown = () => document.getElementById("main").textContent;
"""


@cache
def options():
    """Return what makes this node read the source of numbers, as browsers do."""
    asked = ["node", "-p", "typeof JSON.rawJSON"]
    known = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return [] if known.strip() == "function" else ["--harmony-json-parse-with-source"]


def run(script, module="main", token="token"):
    """Run a script after a module and its imports, as `$module`; returns what it tells."""
    package = resources.files("purgatory.service")
    files = [
        *(package / "gateway" / "console" / "page").iterdir(),
        package / "http" / "dashboard" / "text.js",
    ]
    modules = {each.name: each.read_text("utf-8") for each in files if each.name.endswith(".js")}
    done = subprocess.run(
        ["node", "--input-type=module", *options(), "-", token],
        input=f"{DOCUMENT}{bundle(modules, f'{module}.js')}\n{script}",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "text", ["9007199254740993", "-9223372036854775808", "[18446744073709551615, 1.5, 20]"]
)
def test_large_integers(text):
    """They are shown and sent as they are: a number of JavaScript has 53 bits."""
    script = f"""
        const {{ json, parsed, pretty }} = $format;
        console.log(JSON.stringify([pretty(parsed({text!r})), json({text!r})]));
    """
    shown, sent = run(script, "format")
    assert json.loads(shown) == json.loads(text)
    assert sent == text


def test_typed_values():
    """What is no JSON is a text, and nothing is null."""
    script = """console.log(JSON.stringify(
        [" ", '{"a": 1}', "plain", '"', "1e400"].map($format.json)));"""
    assert run(script, "format") == ["null", '{"a": 1}', '"plain"', '"\\""', "1e400"]


@pytest.mark.parametrize("leave", ['go("#jobs")', "leave.listeners.click()"])
def test_a_late_refusal(leave):
    """It is of a view that the user has left: the page shows the next view, or the sign-in."""
    found = run(f"""
        location.hash = "#job?id=a";
        answers["/v1/access"]({{ client: "shop", rights: ["submit"], sees_all: false }});
        await settled();
        await settled();
        const late = answers["/v1/jobs/a"];
        const leave = document.getElementById("leave");
        {leave};
        late({{ code: "unknown", message: "job 'a' is not known" }}, 404);
        for (let count = 0; count < 20; count += 1) await settled();
        console.log(JSON.stringify(shown()));
        process.exit(0);
    """)
    assert "not known" not in found
    assert ("Sign in" in found) == ("leave" in leave)


def test_a_load_that_is_refused():
    """The page says why: it has nothing else to show."""
    found = run("""
        answers["/v1/access"]({ code: "unavailable", message: "its log says why" }, 503);
        for (let count = 0; count < 20; count += 1) await settled();
        console.log(JSON.stringify(shown()));
    """)
    assert found == "Consoleits log says why"


def test_a_token_of_other_characters():
    """It is refused as any unknown token: no browser sends it."""
    found = run("await settled(); console.log(JSON.stringify(shown()));", token="“token”")
    assert "The gateway does not know this token" in found


@pytest.mark.parametrize(
    ("event", "waits"),
    [("counts", [1000] * 6), ("problem", [1000, 2000, 4000, 8000, 10000, 10000])],
)
def test_a_stream_that_ends(event, waits):
    """The console connects again; ever later while the gateway refuses."""
    found = run(
        f"""
        const text = "event: {event}\\ndata: {{}}\\n\\n";
        globalThis.fetch = async () => new Response(text);
        const controller = new AbortController();
        const waits = [];
        globalThis.setTimeout = (call, ms) => {{
          waits.push(ms);
          if (waits.length === 6) controller.abort();
          queueMicrotask(call);
        }};
        const on = {{ event() {{}}, lost() {{}} }};
        await $stream.follow("/v1/counts/stream", on, controller.signal);
        console.log(JSON.stringify(waits));
        """,
        "stream",
    )
    assert found == waits


def test_pages():
    """A page may be empty though there are more; the list ends with the last one."""
    found, asked = run(
        """
        const pages = [["a"], [], ["b"], ["c"]];
        const asked = [];
        globalThis.fetch = async (where) => {
          asked.push(where);
          const at = Number(new URLSearchParams(where.split("?")[1]).get("cursor"));
          const cursor = at + 1 < pages.length ? at + 1 : null;
          return new Response(JSON.stringify({ jobs: pages[at], cursor }));
        };
        const found = [];
        for (const count of [1, 2, 9]) found.push(await $api.read("jobs", { limit: 5 }, count));
        console.log(JSON.stringify([found, asked]));
        """,
        "api",
    )
    assert found == [[["a"], 1], [["a", "b"], 3], [["a", "b", "c"], None]]
    assert asked[:3] == ["/v1/jobs?limit=5", "/v1/jobs?limit=5", "/v1/jobs?limit=5&cursor=1"]


JOB = {
    "job_id": "job-1",
    "state": "ready",
    "kind": "mail",
    "client": "shop",
    "due_ms": 5,
    "ended_ms": None,
    "attempts": 0,
    "why": "paused",
    "error": "",
}
OPERATION = {
    "op_id": "op-1",
    "state": "pending",
    "kind": "pay",
    "client": "shop",
    "keys": ["k"],
    "at_ms": None,
    "deadline_ms": 5,
}
REPEAT = {
    "name": "nightly",
    "client": "shop",
    "kind": "report",
    "cron": None,
    "every": 60.0,
    "paused": False,
    "next_ms": 5,
    "last_ms": None,
    "skipped": 0,
}
COUNTS = {
    "states": {"ready": 1},
    "kinds": [{"kind": "mail", "states": {"ready": 1}, "is_stuck": True}],
    "others": {},
    "operations": {},
    "troubles": [],
}
LIMIT = {"kind": "call", "paused": False, "running": 2**63 - 1, "per_second": 2.5}


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("#jobs", ["job-1", "mail", "paused", "1 job shown; there are more"]),
        ("#operations", ["op-1", "pay", "1 operation shown"]),
        ("#keys?key=k", ["1 operation waits for k", "op-1"]),
        ("#repeats", ["nightly", "report", "every 1 min", "1 repeat shown"]),
        ("#kinds", ["mail", "call", f"{2**63 - 1} at a time, 2.5 a second"]),
    ],
)
def test_views(view, texts):
    """Each shows what the gateway answers."""
    answers = {
        "/v1/access": {"client": "shop", "rights": ["read", "submit", "work"], "sees_all": False},
        "/v1/jobs": {"jobs": [JOB], "cursor": "7.1"},
        "/v1/operations": {"operations": [OPERATION], "cursor": None},
        "/v1/repeats": {"repeats": [REPEAT], "cursor": None},
        "/v1/counts": COUNTS,
        "/v1/limits": {"limits": [LIMIT]},
    }
    found = run(f"""
        location.hash = {view!r};
        Object.assign(given, { ({path: json.dumps(body) for path, body in answers.items()})!r});
        answers["/v1/access"]({json.dumps(answers["/v1/access"])});
        for (let count = 0; count < 50; count += 1) await settled();
        console.log(JSON.stringify(shown()));
        process.exit(0);
    """)
    for text in texts:
        assert text in found


@pytest.mark.parametrize(
    ("action", "count", "asked", "sent", "told"),
    [
        ("cancelMatching", 3, "Cancel 4 jobs?", {"kind": "mail"}, "3 jobs cancelled. On disk."),
        ("retryMatching", 1, "Retry 2 dead jobs?", {"kind": "mail"}, "1 job tried again. On disk."),
    ],
)
def test_many_jobs(action, count, asked, sent, told):
    """The question has the count of the moment; the notice has the count that was changed."""
    found = run(
        f"""
        const bodies = [];
        const counts = {{ states: {{ ready: 4, dead: 2 }} }};
        globalThis.fetch = async (where, {{ body }}) => {{
          if (body) bodies.push(JSON.parse(body));
          return new Response(JSON.stringify(body ? {{ count: {count} }} : counts));
        }};
        const dialog = document.getElementById("dialog");
        dialog.showModal = () => setImmediate(() => {{
          dialog.returnValue = "yes";
          dialog.listeners.close();
        }});
        await $actions.{action}({{ kind: "mail" }});
        const texts = ["dialog-title", "notices"].map((id) => ids[id].textContent);
        console.log(JSON.stringify([...texts, bodies]));
        process.exit(0);
        """,
        "actions",
    )
    assert found == [asked, f"{told}Close", [sent]]


def test_no_job_to_retry():
    """The console says so, and asks nothing."""
    found = run(
        """
        globalThis.fetch = async () => new Response(JSON.stringify({ states: { ready: 4 } }));
        await $actions.retryMatching({ kind: "mail" });
        console.log(JSON.stringify(document.getElementById("notices").textContent));
        process.exit(0);
        """,
        "actions",
    )
    assert found.startswith("There is no dead job to retry with kind mail, state dead.")
