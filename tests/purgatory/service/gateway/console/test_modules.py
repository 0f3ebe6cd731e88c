"""The console's modules in node, before a document that only keeps its nodes."""

import json
import shutil
import subprocess
from functools import cache
from importlib import resources

import pytest

from purgatory.service.gateway.console.bundle import bundle

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")

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
globalThis.sessionStorage = { getItem: () => "token", setItem() {}, removeItem() {} };
const answers = {};
globalThis.fetch = (where) => new Promise((resolve) => {
  answers[where.split("?")[0]] = (body, status = 200) => {
    resolve(new Response(JSON.stringify(body), { status }));
  };
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


def run(script, first="main.js"):
    """Run a script after the console's modules; returns what it tells."""
    package = resources.files("purgatory.service")
    files = [
        *(package / "gateway" / "console" / "page").iterdir(),
        package / "http" / "dashboard" / "text.js",
    ]
    modules = {each.name: each.read_text("utf-8") for each in files if each.name.endswith(".js")}
    modules["test.js"] = script
    text = DOCUMENT + bundle(modules, first) + ("\n" + script if first != "test.js" else "")
    done = subprocess.run(
        ["node", "--input-type=module", *options()],
        input=text,
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
        import {{ json, parsed, pretty }} from "./format.js";
        console.log(JSON.stringify([pretty(parsed({text!r})), json({text!r})]));
    """
    shown, sent = run(script.strip().replace("\n        ", "\n"), "test.js")
    assert json.loads(shown) == json.loads(text)
    assert sent == text


def test_typed_values():
    """What is no JSON is a text, and nothing is null."""
    script = """import { json } from "./format.js";
console.log(JSON.stringify([" ", "{\\"a\\": 1}", "plain", "\\"", "1e400"].map(json)));"""
    assert run(script, "test.js") == ["null", '{"a": 1}', '"plain"', '"\\""', "1e400"]


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
