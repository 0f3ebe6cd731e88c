// The list of jobs: by state, kind, tag and client; due or newest first; page by page.
import { cancelMatching, retryMatching } from "./actions.js";
import { get, read } from "./api.js";
import { counted, distance, moment, total, whole } from "./format.js";
import { go, hash } from "./route.js";
import { session } from "./session.js";
import { badge, button, choice, element, field, form, pageSize, redrawn, table } from "./widgets.js";

const STATES = ["scheduled", "ready", "running", "retrying", "done", "dead", "cancelled"];
const DUE_FIRST = new Set(["scheduled", "ready", "retrying"]);
const HEAD = ["Job", "State", "Kind", "Client", "Due, or ended", "Tries", "Error, or why"];

export function jobsView({ order, ...filter }) {
  order ??= DUE_FIRST.has(filter.state) ? "due" : "newest";
  const chips = element("nav", { class: "chips", "aria-label": "States" });
  const bulk = element("p", { class: "buttons" });
  const list = element("div", {});
  let pages = 1;
  let controller = new AbortController();

  function drawChips(states) {
    const { state: _, ...rest } = filter;
    const link = (state, count) => element("a", {
      href: hash("jobs", { ...rest, state: state || undefined }), "data-key": `state ${state}`, "data-alarm": state === "dead" && count > 0,
      ...((filter.state ?? "") === state ? { "aria-current": "true" } : {}),
    }, state || "all", " ", element("b", {}, whole(count)));
    redrawn(chips, link("", total(states, ...STATES)), ...STATES.map((state) => link(state, states[state] ?? 0)));
  }

  async function refresh() {
    controller.abort();
    controller = new AbortController();
    const [jobs, cursor] = await read("jobs", { ...filter, order, limit: pageSize }, pages, controller.signal);
    const more = cursor === null ? [] : [button("More", async () => { pages += 1; await refresh(); }, { "data-key": "more" })];
    const text = jobs.length ? `${counted(jobs.length, "job")} shown${cursor === null ? "" : "; there are more"}` : Object.keys(filter).length ? "No job matches." : "There are no jobs.";
    redrawn(list, table("Jobs", HEAD, jobs.map(cells)), element("p", { class: "lead" }, text), ...more);
  }

  drawBulk();
  return {
    title: "Jobs",
    nodes: [find(), chips, filters(filter, order), bulk, list],
    refresh,
    async counted(all) {
      const { state: _, ...rest } = filter;
      drawChips(Object.keys(rest).length ? (await get("/v1/counts", rest)).states : all.states);
    },
    close: () => controller.abort(),
  };

  function drawBulk() {
    const given = Object.keys(filter).length > 0;
    const ended = ["done", "dead", "cancelled"].includes(filter.state);
    if (session.may("submit") && given && !ended) {
      bulk.append(button("Cancel all that match…", async () => { await cancelMatching(filter); await refresh(); }, { class: "danger" }));
    }
    if (session.may("work") && filter.state === "dead") {
      bulk.append(button("Retry all that match…", async () => { await retryMatching(filter); await refresh(); }));
    }
  }
}

function find() {
  return form({ class: "find", role: "search" }, ({ id }) => go("job", { id }),
    field("Find a job by its id", "id", { type: "search", required: "" }), element("button", {}, "Find"));
}

function filters(filter, order) {
  const fields = ["kind", "tag", ...(session.access.sees_all ? ["client"] : [])];
  return form({ class: "filters", "aria-label": "Filter" }, (given) => go("jobs", { ...given, state: filter.state }),
    ...fields.map((name) => field(name, name, { value: filter[name] ?? "" })),
    choice("order", { due: "due first", newest: "newest first" }, order), element("button", {}, "Show"));
}

function cells(job) {
  const at = job.ended_ms ?? job.due_ms;
  return [
    element("a", { href: hash("job", { id: job.job_id }), "data-key": job.job_id }, job.job_id),
    badge(job.state), job.kind, job.client,
    element("time", { datetime: new Date(at).toISOString(), title: moment(at) }, distance(at)),
    String(job.attempts), job.why || job.error,
  ];
}

