// What changes things: each asks first where that cannot be undone, and tells when it is on disk.
import { change, get, path } from "./api.js";
import { counted, time, total } from "./format.js";
import { confirmed, notice } from "./widgets.js";

const ALIVE = ["scheduled", "ready", "running", "retrying"];

function tell(done, yes, no) {
  notice(done ? `${yes} On disk.` : no, done ? "good" : "bad");
}

const ENDED = "Nothing was changed: its state is another one by now, or it is not known any more.";

export async function runJob(id) {
  tell((await change("POST", `${path("jobs", id)}/run`)).done, `${id} runs now.`, ENDED);
}

export async function retryJob(id) {
  tell((await change("POST", `${path("jobs", id)}/retry`)).done, `${id} is tried again.`, ENDED);
}

export async function moveJob(id, text) {
  tell((await change("PATCH", path("jobs", id), time(text))).done, `${id} was moved.`, ENDED);
}

export async function cancelJob(id) {
  if (!(await confirmed("Cancel this job?", id, "Cancel the job"))) return;
  tell((await change("DELETE", path("jobs", id))).done, `${id} was cancelled.`, ENDED);
}

// Returns whether the job is gone.
export async function dropJob(id) {
  if (!(await confirmed("Forget this dead job?", id, "Drop the job"))) return false;
  const { done } = await change("DELETE", path("jobs", id));
  tell(done, `${id} was dropped.`, ENDED);
  return done;
}

function described(wanted) {
  return Object.entries(wanted).map(([name, text]) => `${name} ${text || "(none)"}`).join(", ");
}

// Count first, and ask: the count is of this moment.
async function many(verb, noun, states, wanted, body, note, done) {
  const count = total((await get("/v1/counts", wanted)).states, ...states);
  if (!count) return notice(`There is no ${noun} to ${verb.toLowerCase()} with ${described(wanted)}.`, "bad");
  const ask = `${verb} ${counted(count, noun)}`;
  if (!(await confirmed(`${ask}?`, `${described(wanted)}. ${note}`, ask, "Leave them"))) return;
  const answer = await change("POST", `/v1/batch/jobs/${verb.toLowerCase()}`, body);
  notice(`${counted(answer.count, "job")} ${done}. On disk.`);
}

export async function cancelMatching(wanted) {
  await many("Cancel", "job", ALIVE, wanted, wanted, "Counted just now; all that match at that moment are changed.", "cancelled");
}

export async function retryMatching({ state: _, ...wanted }) {
  const dead = { ...wanted, state: "dead" };
  await many("Retry", "dead job", ["dead"], dead, wanted, "Each is tried again from its first attempt.", "tried again");
}

export async function changeLimits(kind, limits, words) {
  await change("PATCH", "/v1/limits", { kind, ...limits });
  notice(`${kind || "(no kind)"}: ${words}. On disk.`);
}

export async function changeRepeat(repeat, verb, words) {
  const where = `${path("repeats", repeat.name)}/${verb}?${new URLSearchParams({ client: repeat.client })}`;
  tell((await change("POST", where)).done, `${repeat.name} ${words}.`, "Nothing was changed: its last job has not ended.");
}

export async function deleteRepeat(repeat) {
  if (!(await confirmed("Delete this repeat?", `${repeat.name}. Jobs that it has scheduled stay.`, "Delete the repeat"))) return;
  const where = `${path("repeats", repeat.name)}?${new URLSearchParams({ client: repeat.client })}`;
  tell((await change("DELETE", where)).done, `${repeat.name} was deleted.`, "Nothing was changed.");
}

export async function cancelOperation(id) {
  if (!(await confirmed("Cancel this operation?", id, "Cancel the operation"))) return;
  tell((await change("DELETE", path("operations", id))).done, `${id} was cancelled.`, ENDED);
}

export async function extendOperation(id, timeout) {
  tell((await change("PATCH", path("operations", id), { timeout })).done, `${id} has a new deadline.`, ENDED);
}

export async function changeKey(key, body, words) {
  const { count } = await change("POST", path("keys", key), body);
  notice(`${key} ${words}: ${counted(count, "operation")} ended. On disk.`);
}
