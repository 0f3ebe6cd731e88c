// The list of operations, newest or oldest first: by state, kind, key and client; page by page.
import { read } from "./api.js";
import { counted, distance, moment, total, whole } from "./format.js";
import { go, hash } from "./route.js";
import { session } from "./session.js";
import { badge, button, choice, element, field, form, pageSize, redrawn, table } from "./widgets.js";

const STATES = ["", "pending", "completed", "failed", "expired", "cancelled"];
const HEAD = ["Operation", "State", "Kind", "Client", "Waits for", "Deadline, or end"];

export function operationsView({ order = "newest", ...filter }) {
  const states = element("nav", { class: "chips", "aria-label": "States" });
  const list = element("div", {});
  let pages = 1;

  async function refresh() {
    const [found, cursor] = await read("operations", { ...filter, order, limit: pageSize }, pages);
    const more = cursor === null ? [] : [button("More", async () => { pages += 1; await refresh(); }, { "data-key": "more" })];
    const text = found.length ? `${counted(found.length, "operation")} shown${more.length ? "; there are more" : ""}` : Object.values(filter).some(Boolean) ? "No operation matches." : "There are no operations.";
    redrawn(list, operationTable(found), element("p", { class: "lead" }, text), ...more);
  }

  redrawn(states, ...chips(filter, {}));
  return { title: "Operations", nodes: [find(), states, filters(filter, order), list], refresh,
    async counted(all) { redrawn(states, ...chips(filter, all.operations)); } };
}

export const operationTable = (found) => table("Operations", HEAD, found.map(cells));

function cells(each) {
  const at = each.at_ms ?? each.deadline_ms;
  return [
    element("a", { href: hash("operation", { id: each.op_id }), "data-key": each.op_id }, each.op_id),
    badge(each.state), each.kind, each.client,
    each.keys.join(", "),
    element("time", { datetime: new Date(at).toISOString(), title: moment(at) }, distance(at)),
  ];
}

function find() {
  return form({ class: "find", role: "search" }, ({ id }) => go("operation", { id }),
    field("Find an operation by its id", "id", { type: "search", required: "" }), element("button", {}, "Find"));
}

// The states, with the counts of all operations; what a filter leaves is not counted.
function chips({ state: now = "", ...rest }, counts) {
  const isCounted = !Object.values(rest).some(Boolean);
  const count = (state) => (state ? counts[state] ?? 0 : total(counts, ...STATES));
  return STATES.map((state) => element("a", {
    href: hash("operations", { ...rest, state: state || undefined }), "data-key": `state ${state}`, ...(state === now ? { "aria-current": "true" } : {}),
  }, state || "all", ...(isCounted && Object.keys(counts).length ? [" ", element("b", {}, whole(count(state)))] : [])));
}

function filters(filter, order) {
  const fields = ["kind", "key", ...(session.access.sees_all ? ["client"] : [])];
  return form({ class: "filters", "aria-label": "Filter" }, (given) => go("operations", { ...given, state: filter.state }),
    ...fields.map((name) => field(name, name, { value: filter[name] ?? "" })),
    choice("order", { oldest: "oldest first", newest: "newest first" }, order), element("button", {}, "Show"));
}
