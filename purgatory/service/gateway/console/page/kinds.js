// Kinds of jobs: how many are in which state, whether they are paused, and their limits.
import { changeLimits, retryMatching } from "./actions.js";
import { get } from "./api.js";
import { whole } from "./format.js";
import { hash } from "./route.js";
import { session } from "./session.js";
import { button, element, field, form, redrawn, table } from "./widgets.js";

const STATES = ["scheduled", "ready", "running", "retrying", "dead", "done", "cancelled"];

export function kindsView() {
  const list = element("div", {});
  let counts = { kinds: [], others: {} };
  let limits = [];

  async function refresh() {
    [counts, { limits }] = await Promise.all([get("/v1/counts"), get("/v1/limits")]);
    draw();
  }

  function draw() {
    const inputs = [...list.querySelectorAll("input")];
    if (inputs.some((each) => each === document.activeElement || each.value !== each.defaultValue)) return; // somebody types
    const known = new Map(limits.map((limit) => [limit.kind, limit]));
    const rows = counts.kinds.map(({ kind, states, is_stuck: stuck }) => cells(kind, states, known.get(kind), stuck));
    const counted = new Set(counts.kinds.map(({ kind }) => kind));
    rows.push(...limits.filter(({ kind }) => !counted.has(kind)).map((limit) => cells(limit.kind, {}, limit)));
    const head = ["Kind", ...STATES, "Limits", ...(session.may("work") ? ["Actions"] : [])];
    const others = Object.entries(counts.others).map(([state, count]) => `${whole(count)} ${state}`).join(", ");
    redrawn(list, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Kinds" }, table("Kinds of jobs", head, rows)),
      element("p", { class: "lead" }, others ? `All further kinds together: ${others}` : rows.length ? "" : "There are no jobs."));
  }

  function cells(kind, states, limit, isStuck = false) {
    const alarms = new Set(isStuck ? ["ready", "dead"] : ["dead"]);
    const numbers = STATES.map((state) => (states[state]
      ? element("a", { href: hash("jobs", { kind, state }), "data-key": `${kind} ${state}`, "data-alarm": alarms.has(state) }, whole(states[state])) : ""));
    const row = [kind || "(none)", ...numbers, described(limit)];
    return session.may("work") ? [...row, [actions(kind, states, limit)]] : row;
  }

  function actions(kind, states, limit) {
    const name = kind || "no kind";
    const act = (text, work, attributes = {}) => button(text, async () => { await work(); await refresh(); },
      { "data-key": `${text === "Resume" ? "Pause" : text} ${kind}`, "aria-label": `${text.replace("…", "")} ${name}`, ...attributes });
    const found = [limit?.paused
      ? act("Resume", () => changeLimits(kind, { paused: false }, "resumed"))
      : act("Pause", () => changeLimits(kind, { paused: true }, "paused"))];
    if (states.dead) found.push(act(`Retry ${whole(states.dead)} dead…`, () => retryMatching({ kind })));
    return element("span", { class: "buttons" }, ...found, limitForm(kind, name, limit));
  }

  function limitForm(kind, name, limit) {
    const made = form({ class: "inline", "aria-label": `Limits of ${name}` }, async ({ running, per_second }) => {
      await changeLimits(kind, { running: Number(running), per_second: Number(per_second) }, "limited");
      made.querySelector("button").focus();
      for (const each of made.querySelectorAll("input")) each.defaultValue = each.value; // the row may be drawn anew
      await refresh();
    },
    field("at a time", "running", { type: "number", min: "0", step: "1", value: limit?.running ?? "", placeholder: "any" }),
    field("a second", "per_second", { type: "number", min: "0", step: "any", value: limit?.per_second ?? "", placeholder: "any" }),
    element("button", { "aria-label": `Limit ${name}`, "data-key": `limit ${kind}` }, "Limit"));
    return made;
  }

  return { title: "Kinds", nodes: [list], refresh, counted: refresh };
}

function described(limit) {
  if (limit === undefined) return "";
  const parts = limit.paused ? ["paused"] : [];
  if (limit.running !== null) parts.push(`${limit.running} at a time`);
  if (limit.per_second !== null) parts.push(`${limit.per_second} a second`);
  return parts.join(", ");
}
