// Keys: who waits for one; completing it, or letting it fail, by hand.
import { changeKey } from "./actions.js";
import { read } from "./api.js";
import { counted, json } from "./format.js";
import { operationTable } from "./operations.js";
import { go } from "./route.js";
import { session } from "./session.js";
import { element, field, form, pageSize, redrawn } from "./widgets.js";

export function keysView({ key = "" }) {
  const who = element("div", {});
  const actions = element("div", { class: "actions" });
  const search = form({ class: "find", role: "search" }, (given) => go("keys", given),
    field("Who waits for the key", "key", { type: "search", required: "", value: key }), element("button", {}, "Show"));

  async function refresh() {
    if (!key || !session.may("read")) return;
    const [found, cursor] = await read("operations", { key, state: "pending", limit: pageSize }, 1);
    const more = cursor === null ? "" : " or more";
    const count = counted(found.length, "operation");
    const verb = found.length === 1 && !more ? "waits" : "wait";
    redrawn(who, element("p", {}, `${count}${more} ${verb} for `, element("strong", {}, key), "."), operationTable(found));
  }

  if (key && session.may("complete")) actions.append(...changes());

  function changes() {
    const done = async (work) => { await work(); await refresh(); };
    const complete = form({ class: "inline", "aria-label": "Complete the key" },
      ({ value: typed }) => done(() => changeKey(key, `{"value": ${json(typed)}}`, "was completed")),
      field("Value (JSON, or a text)", "value"), element("button", {}, "Complete the key"));
    const fail = form({ class: "inline", "aria-label": "Let the key fail" },
      ({ type, message }) => done(() => changeKey(key, { error: { type, message } }, "failed")),
      field("Error", "type", { required: "", value: "Operator" }), field("Message", "message"),
      element("button", { class: "danger" }, "Let the key fail"));
    return [complete, fail];
  }

  return { title: "Keys", nodes: [search, actions, who], refresh, counted: refresh };
}

