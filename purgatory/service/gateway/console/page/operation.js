// One operation: what it waits for, how it has ended, and what can be done.
import { cancelOperation, extendOperation } from "./actions.js";
import { get, path } from "./api.js";
import { both, pretty } from "./format.js";
import { hash } from "./route.js";
import { session } from "./session.js";
import { badge, button, element, facts, field, form, redrawn, reread, section } from "./widgets.js";

export function operationView({ id }) {
  const head = element("p", { class: "lead" });
  const actions = element("div", { class: "actions" });
  const about = element("div", {});
  let state = null;

  async function refresh() {
    const found = await get(path("operations", id));
    redrawn(head, badge(found.state));
    redrawn(about, section("Facts", facts(factsOf(found))), section("Keys", keys(found)),
      ...(found.payload === null ? [] : [section("Payload", element("pre", { tabindex: "0" }, pretty(found.payload)))]),
      ...(found.result === null ? [] : [section("Result", element("pre", { tabindex: "0" }, pretty(found.result)))]));
    if (state !== found.state) redrawn(actions, ...(found.state === "pending" && session.may("submit") ? changes() : []));
    state = found.state;
  }

  function changes() {
    return [
      form({ class: "inline" }, async ({ timeout }) => { await extendOperation(id, timeout); await reread(refresh); },
        field("New timeout", "timeout", { required: "", placeholder: "30m" }), element("button", {}, "Extend")),
      button("Cancel…", async () => { await cancelOperation(id); await reread(refresh); }, { class: "danger", "data-key": "cancel" }),
    ];
  }

  return { title: `Operation ${id}`, nodes: [head, actions, about], refresh, counted: refresh };
}

function factsOf(found) {
  return [
    ["kind", found.kind], ["client", found.client], ["submitted", both(found.submitted_ms)],
    ["deadline", both(found.deadline_ms)], ["ended", both(found.at_ms)], ["by key", found.by_key],
  ];
}

function keys(found) {
  const done = new Set(found.keys_done);
  return element("ul", {}, ...found.keys.map((key) =>
    element("li", {}, element("a", { href: hash("keys", { key }), "data-key": key }, key), done.has(key) ? " (completed)" : "")));
}
