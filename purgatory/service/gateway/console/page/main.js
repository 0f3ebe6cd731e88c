// The console: signs in, shows the view that the URL names, and keeps it up to date.
import { get } from "./api.js";
import { moment } from "./format.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { keysView } from "./keys.js";
import { kindsView } from "./kinds.js";
import { operationView } from "./operation.js";
import { operationsView } from "./operations.js";
import { repeatsView } from "./repeats.js";
import { route } from "./route.js";
import { session } from "./session.js";
import { follow } from "./stream.js";
import { element, field, form, notice } from "./widgets.js";

const VIEWS = {
  jobs: jobsView, job: jobView, kinds: kindsView, repeats: repeatsView,
  operations: operationsView, operation: operationView, keys: keysView,
};
const PARTS = { job: "jobs", operation: "operations" };

const main = document.getElementById("main");
const status = document.getElementById("status");
const views = document.getElementById("views");
const leave = document.getElementById("leave");
const troubles = document.getElementById("troubles");
const who = document.getElementById("who");

let shown = null; // the view
let counts = null; // the last ones
let stream = null; // its AbortController
let refreshing = false;
let again = false;

function tell(state, text) {
  status.dataset.state = state;
  status.hidden = false;
  if (status.textContent !== text) status.textContent = text;
}

function signIn(message = "") {
  stream?.abort();
  shown?.close?.();
  shown = counts = null;
  session.end();
  for (const node of [views, leave, status, troubles]) node.hidden = true;
  who.textContent = "";
  const input = field("Token", "token", { type: "password", required: "", autocomplete: "off" });
  const entry = form({ class: "sign-in" }, async ({ token }) => { session.begin(token); await begin(); },
    element("h2", {}, "Sign in"),
    element("p", { class: "lead" }, "Make a token with ", element("code", {}, "purgatory tokens new"), ". This tab keeps it until you close the tab or sign out."),
    ...(message ? [element("p", { class: "error", role: "alert" }, message)] : []),
    input, element("button", {}, "Sign in"));
  main.replaceChildren(element("section", { "aria-label": "Sign in" }, entry));
  input.querySelector("input").focus();
}

// Run work of a view; a token that is no longer good leads to the sign-in.
async function guarded(work) {
  const view = shown;
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError" || view !== shown) return; // the user has left the view
    if (error.status === 401) return signIn("The gateway does not know this token, or it was revoked.");
    if ([400, 403, 404].includes(error.status) || !main.childElementCount) return failed(error);
    notice(error.message, "bad");
  }
}

function failed(error) {
  main.replaceChildren(element("section", {}, element("h2", { tabindex: "-1" }, shown?.title ?? "Console"), element("p", { class: "error", role: "alert" }, error.message)));
}

async function begin() {
  await guarded(async () => {
    session.access = await get("/v1/access");
    const { client, rights, sees_all } = session.access;
    who.textContent = `${client} · ${sees_all ? "administrator" : rights.join(", ")}`;
    for (const node of [views, leave]) node.hidden = false;
    for (const link of views.children) {
      const needs = link.hash === "#keys" ? ["read", "complete"] : ["read"];
      link.hidden = !needs.some((right) => session.may(right));
    }
    show();
    live();
  });
}

function live() {
  if (!session.may("read")) return;
  stream = new AbortController();
  tell("lost", "connecting");
  follow("/v1/counts/stream", {
    event(name, data) {
      if (name === "problem") return;
      tell("live", "live");
      if (name !== "counts") return;
      counts = data;
      showTroubles(counts.troubles);
      refresh();
    },
    lost: () => { if (status.dataset.state !== "lost") tell("lost", `no answer since ${moment(Date.now()).slice(11)}`); },
    refused: () => signIn("The gateway does not know this token any more."),
  }, stream.signal);
}

// What is wrong stands above each view; a screen reader is told when it changes.
function showTroubles(texts) {
  troubles.hidden = !texts.length;
  troubles.dataset.state = texts[0]?.startsWith("Not ready") ? "bad" : "warning";
  const list = troubles.firstElementChild;
  if (texts.join() === [...list.children].map((each) => each.textContent).join()) return;
  list.replaceChildren(...texts.map((text) => element("li", {}, text)));
}

// Read again what is shown, once at a time; the last wish is granted.
async function refresh() {
  if (refreshing) return void (again = true);
  refreshing = true;
  do {
    again = false;
    const view = shown;
    await guarded(async () => {
      await Promise.all([view?.refresh(), counts && view?.counted !== view?.refresh && view?.counted?.(counts)]);
    });
  } while (again);
  refreshing = false;
}

function show() {
  if (session.access === null) return;
  const { view, wanted } = route();
  const name = Object.hasOwn(VIEWS, view) ? view : "jobs";
  shown?.close?.();
  shown = VIEWS[name](wanted);
  document.title = `${shown.title} · purgatory`;
  for (const link of views.children) {
    if (link.hash === `#${PARTS[name] ?? name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const heading = element("h2", { class: "title", tabindex: "-1" }, shown.title);
  const first = main.childElementCount === 0;
  main.replaceChildren(heading, ...shown.nodes);
  if (!first) heading.focus({ preventScroll: true });
  refresh();
}

leave.addEventListener("click", () => signIn());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # names the view
  main.focus();
});
window.addEventListener("hashchange", show);
if (session.token) begin();
else signIn();
