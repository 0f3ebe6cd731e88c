// One job: what it is, what has happened to it, and what can be done.
import { cancelJob, dropJob, moveJob, retryJob, runJob } from "./actions.js";
import { get, path } from "./api.js";
import { between, both, pretty } from "./format.js";
import { go } from "./route.js";
import { session } from "./session.js";
import { badge, button, element, facts, field, form, printable, redrawn, reread, section, table } from "./widgets.js";

const WAITS = new Set(["scheduled", "ready", "retrying"]);

export function jobView({ id }) {
  const head = element("p", { class: "lead" });
  const error = element("p", { class: "error", hidden: "" });
  const actions = element("div", { class: "actions" });
  const about = element("div", {});
  let state = null;

  async function refresh() {
    const job = await get(path("jobs", id));
    redrawn(head, badge(job.state), ` ${job.why}`);
    error.hidden = !job.error;
    error.textContent = printable(job.error ?? "");
    redrawn(about, section("Facts", facts(factsOf(job))), section("Attempts", attempts(job)), section("Events", events(job)),
      ...(job.payload === null ? [] : [section("Payload", element("pre", { tabindex: "0" }, pretty(job.payload)))]),
      ...(job.state === "done" ? [section("Result", element("pre", { tabindex: "0" }, pretty(job.result)))] : []));
    if (state !== job.state) redrawn(actions, ...actionsOf(job.state)); // a form that is filled in stays
    state = job.state;
  }

  function actionsOf(now) {
    const act = (text, work, attributes) => button(text, async () => { await work(id); await reread(refresh); }, { "data-key": text, ...attributes });
    const found = [];
    if (session.may("submit") && WAITS.has(now)) {
      found.push(act("Run now", runJob), form({ class: "inline" }, async ({ time }) => { await moveJob(id, time); await reread(refresh); },
        field("Move to", "time", { required: "", placeholder: "30m, 2027-03-01T09:00", size: "20" }), element("button", {}, "Move")));
    }
    if (session.may("work") && now === "dead") found.push(act("Retry", retryJob), button("Drop…", dropAndLeave, { class: "danger", "data-key": "Drop…" }));
    if (session.may("submit") && (WAITS.has(now) || now === "running")) found.push(act("Cancel…", cancelJob, { class: "danger" }));
    return found;
  }

  async function dropAndLeave() {
    if (await dropJob(id)) go("jobs");
  }

  return { title: `Job ${id}`, nodes: [head, error, actions, about], refresh, counted: refresh };
}

function factsOf(job) {
  return [
    ["kind", job.kind], ["client", job.client], ["tags", job.tags.join(", ")],
    ["cancelled by keys", job.unless.join(", ")], ["priority", job.priority ? String(job.priority) : ""],
    ["attempts", job.max_attempts === null ? String(job.attempts) : `${job.attempts} of ${job.max_attempts}`],
    ["worker", job.worker],
  ];
}

// The last attempts that the server keeps: when, how long, where, and why they failed.
function attempts(job) {
  if (!job.history.length) return element("p", { class: "lead" }, job.attempts ? "None is kept." : "None has begun.");
  return table("Attempts", ["Attempt", "Began", "Took", "Worker", "Error"], job.history.map((each) => [
    String(each.number), both(each.began_ms), each.ended_ms === null ? `${between(each.began_ms, null)}, runs` : between(each.began_ms, each.ended_ms),
    each.worker, each.error,
  ]));
}

// The moments that the server keeps, in order.
function events(job) {
  const found = [[job.submitted_ms, "scheduled", ""]];
  const began = job.history.find((each) => each.began_ms === job.began_ms);
  if (began) found.push([job.began_ms, `attempt ${began.number} began`, job.worker]); // else it was given back
  if (job.ended_ms === null) found.push([job.due_ms, job.state === "retrying" ? "next attempt" : "due", ""]);
  else found.push([job.due_ms, "due", ""], [job.ended_ms, job.state, job.error]);
  found.sort(([first], [second]) => first - second);
  return table("Events", ["When", "What", "More"], found.map(([ms, what, more]) => [both(ms), what, more]));
}
