// Polls /state.json and shows it. Nothing here changes anything on the server.

import { Bars, Lines } from "./charts.js";
import { Rings } from "./rings.js";
import { bytes, compact, counted, duration, element, rate, whole } from "./text.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const OUTCOMES = ["completed", "expired", "failed", "cancelled"];
// Seconds over which a rate is averaged, so that it does not jump with every state.
const RATE_SECONDS = 2;
const SECONDS = 120;
const HOUR = 3600;
// Seconds between two looks at the history of an hour.
const COARSE_SECONDS = 30;
// Seconds over which rates and durations of jobs are taken.
const JOB_SECONDS = 60;
const get = (id) => document.getElementById(id);

// A line of a card: a name, a figure, and a note. It is there from the first `show` on.
class Figure {
  constructor(card, id, title, tone) {
    this.card = get(card);
    this.value = element("dd", { class: "value", id });
    this.note = element("dd", { class: "note", id: `${id}-note` });
    this.node = element("div", { class: "figure", hidden: "" }, element("dt", {}, title), this.value, this.note);
    if (tone) this.node.dataset.tone = tone;
    this.card.append(this.node);
  }

  show(text, raw, note = "", alarm = false) {
    this.node.hidden = false;
    this.node.dataset.alarm = alarm;
    this.value.textContent = text;
    this.value.dataset.value = raw;
    this.note.textContent = note;
  }

  count(value, note, alarm) {
    this.show(whole(value), value, note, alarm);
  }
}

const figures = {
  pending: new Figure("due", "pending", "Pending"),
  next: new Figure("due", "next", "Next due"),
  held: new Figure("due", "held", "Held events"),
  unread: new Figure("due", "unread", "Unread outcomes"),
  dead: new Figure("wrong", "dead", "Dead jobs"),
  failed: new Figure("wrong", "failed", "Failed/s", "failed"),
  refused: new Figure("wrong", "refused", "Refused"),
  commits: new Figure("wrong", "commit-failures", "Failed commits"),
  late: new Figure("wrong", "late", "Late now"),
  completed: new Figure("ended", "completed", "Completed/s", "completed"),
  expired: new Figure("ended", "expired", "Expired/s", "expired"),
  cancelled: new Figure("ended", "cancelled", "Cancelled/s", "cancelled"),
  punctual: new Figure("ended", "punctual", "Lateness"),
  clients: new Figure("load", "clients", "Clients"),
  disk: new Figure("load", "disk", "On disk"),
  // Folded: they tell something to who knows the server's threads.
  mailbox: new Figure("inside", "mailbox", "Requests not yet taken"),
  executor: new Figure("inside", "executor", "Due, not started"),
};

const rings = new Rings(get("rings"), get("wheel-table").tBodies[0]);
const outcomes = new Lines(get("outcomes-chart"), get("outcomes-legend"), [
  { name: "completed", tone: "completed" },
  { name: "expired", tone: "expired" },
  { name: "failed", tone: "failed", dashed: true },
  { name: "cancelled", tone: "cancelled", dashed: true },
], SECONDS);
const pending = new Lines(get("pending-chart"), get("pending-legend"), [
  { name: "pending", tone: "completed" },
], SECONDS, compact);
const backlog = new Lines(get("backlog-chart"), get("backlog-legend"), [
  { name: "mailbox", tone: "completed" },
  { name: "executor", tone: "expired" },
], SECONDS, compact);
const lateness = new Bars(get("lateness-chart"));

let showsHour = false; // the charts: an hour, from the server's history, or the last minutes
let recent = []; // states of the last seconds, oldest first: [seconds, state]
let anchor = null; // the wheel's time, and the browser's at that moment

function rates(seconds, state) {
  if (recent.length && state.uptime_s < recent.at(-1)[1].uptime_s) recent = []; // the server was restarted
  recent.push([seconds, state]);
  while (recent.length > 2 && recent[1][0] <= seconds - RATE_SECONDS) recent.shift();
  const [then, before] = recent[0];
  return OUTCOMES.map((name) => {
    const passed = seconds - then;
    return passed > 0 ? Math.max(0, state.outcomes[name] - before.outcomes[name]) / passed : 0;
  });
}

// Jobs by kind, of the last minute: [seconds, kind -> row], oldest first.
let jobsSeen = [];

// What a kind has done within the last seconds: done/s, failed attempts/s, and durations.
function paceOf(row) {
  const [[then, before], [now]] = [jobsSeen[0], jobsSeen.at(-1)];
  const old = before.get(row.kind);
  const passed = now - then;
  if (!row.ran || !old?.ran || passed <= 0) return { done: 0, failed: 0, half: "–", most: "–" };
  const ran = row.ran.map((count, n) => count - old.ran[n]);
  return {
    done: (row.ended[0] - old.ended[0]) / passed,
    failed: (row.failed_attempts - old.failed_attempts) / passed,
    half: taken(row.ran_bounds_ms, ran, 0.5),
    most: taken(row.ran_bounds_ms, ran, 0.99),
  };
}

// How long a share of attempts took, at most; a dash without any.
function taken(bounds, counts, share) {
  let left = share * counts.reduce((a, b) => a + b, 0);
  if (!left) return "–";
  const n = counts.findIndex((count) => (left -= count) <= 0);
  return n < bounds.length ? `≤ ${duration(bounds[n])}` : `> ${duration(bounds.at(-1))}`;
}

function noteJobs(seconds, state) {
  if (jobsSeen.length && state.uptime_s < jobsSeen.at(-1)[2]) jobsSeen = []; // the server was restarted
  jobsSeen.push([seconds, new Map((state.jobs ?? []).map((row) => [row.kind, row])), state.uptime_s]);
  while (jobsSeen.length > 2 && jobsSeen[1][0] <= seconds - JOB_SECONDS) jobsSeen.shift();
}

function show(state) {
  const seconds = performance.now() / 1000;
  const perSecond = rates(seconds, state);
  showName(state);
  noteJobs(seconds, state);
  showHealth(state);
  showTroubles([...(state.troubles ?? []), ...(state.cluster?.troubles ?? [])]);
  showCluster(state.cluster);
  showJobs(state.jobs ?? []);
  get("uptime").textContent = `up ${duration(Math.floor(state.uptime_s) * 1000)}`;
  get("version").textContent = state.version;
  // A server that stands by has no figures.
  document.body.dataset.standby = Boolean(state.cluster && !state.service);
  if (state.cluster && !state.service) return;
  figures.pending.count(state.pending, counted(state.watched_keys, "watched key"));
  figures.held.count(state.held, "for later operations");
  showNext(state);
  OUTCOMES.forEach((name, n) => {
    figures[name].show(rate(perSecond[n]), state.outcomes[name], `${whole(state.outcomes[name])} in all`);
  });
  figures.mailbox.count(state.mailbox.depth, counted(state.mailbox.commands, "command"));
  figures.executor.count(state.executor_backlog, "by the pool that runs callbacks");
  if (state.service) showService(state.service, state.health);
  rings.show(state.levels, state.now_ms);
  get("idle").hidden = state.pending > 0;
  anchor = [state.now_ms, performance.now()];
  rings.turn(state.now_ms, true);
  if (!showsHour) {
    outcomes.add(seconds, perSecond);
    pending.add(seconds, [state.pending]);
    backlog.add(seconds, [state.mailbox.depth, state.executor_backlog]);
  }
  showLateness(state.lateness);
  showOperations(state.operations);
}

// What is wrong, the worst first: of jobs, then what other servers would give.
function showTroubles(texts) {
  get("troubles").hidden = !texts.length;
  const list = get("troubles").firstElementChild;
  if (texts.join() !== [...list.children].map((node) => node.textContent).join()) {
    list.replaceChildren(...texts.map((text) => element("li", {}, text)));
  }
}

// Jobs by kind, in the server's order: kinds in trouble first.
function showJobs(kinds) {
  get("jobs").hidden = !kinds.length;
  const dead = kinds.reduce((sum, row) => sum + row.dead, 0);
  if (kinds.length) figures.dead.count(dead, dead ? "they can be tried again" : "", dead > 0);
  get("jobs-table").tBodies[0].replaceChildren(...kinds.map(jobsRow));
}

function jobsRow(row) {
  const pace = paceOf(row);
  const old = row.ready ? duration(Math.floor(row.oldest_ready_ms / 1000) * 1000) : "–";
  const cell = (text, alarm = false) => element("td", { "data-alarm": alarm }, text);
  return element("tr", {}, element("th", { scope: "row" }, row.kind || "(no kind)"),
    cell(whole(row.ready), row.is_stuck), cell(old, row.is_stuck),
    cell(whole(row.dead), row.dead > 0), cell(row.paused ? "paused" : whole(row.workers), row.is_stuck),
    cell(whole(row.running)), cell(whole(row.retrying)),
    cell(whole(row.scheduled)), cell(rate(pace.done)), cell(rate(pace.failed), pace.failed > 0),
    cell(pace.half), cell(pace.most));
}

// What is due next, and what failed last: if the server shows that here.
function showOperations(operations) {
  get("operations").hidden = !operations;
  if (!operations) return;
  const now = operations.now_ms;
  fill("next-table", nextRows(operations.next, now));
  fill("failures-table", operations.failures.map((row) => [row.op_id, row.kind, row.client,
    tried(row), `${duration(Math.max(0, now - row.at_ms))} ago`]));
}

// Those that are due now are one row: they end before a reader has found them.
function nextRows(next, now) {
  const due = next.filter((row) => row.due_ms - now < 1000);
  const later = next.filter((row) => row.due_ms - now >= 1000);
  const row = ({ op_id: id, kind, client, due_ms: at }) => [id, kind, client, until(at - now)];
  if (due.length < 2) return next.map(row);
  const more = later.length ? "" : " or more";
  return [[`${due.length}${more} operations`, "", "", "now"], ...later.map(row)];
}

function until(ms) {
  return ms < 1000 ? "now" : `in ${duration(Math.floor(ms / 1000) * 1000)}`;
}

// The error, and of a job which attempt it was.
function tried({ error, attempt, is_dead: dead }) {
  const which = attempt ? `attempt ${attempt}${dead ? ", the last" : ""}` : "";
  return [error, which].filter(Boolean).join(" · ");
}

// Fill a table with rows of texts; without any, say so.
function fill(id, rows) {
  const body = get(id).tBodies[0];
  const width = get(id).tHead.rows[0].cells.length;
  const cells = ([first, ...others]) => [element("th", { scope: "row" }, first), ...others.map((text) => element("td", {}, text))];
  const none = element("tr", {}, element("td", { colspan: width, class: "none" }, "none"));
  body.replaceChildren(...(rows.length ? rows.map((row) => element("tr", {}, ...cells(row))) : [none]));
}

// The other servers over the same database, if there may be any.
function showCluster(cluster) {
  const node = get("cluster");
  node.hidden = !cluster;
  if (!cluster) return;
  const count = cluster.standbys.length;
  const parts = [
    cluster.role === "active" ? `Active, epoch ${cluster.epoch}` : `${cluster.role[0].toUpperCase()}${cluster.role.slice(1)}; active: ${cluster.active || "none"}`,
    cluster.partition && `partition ${cluster.partition}`,
    count && `${count} ${count === 1 ? "standby" : "standbys"}: ${cluster.standbys.join(", ")}`,
    cluster.replicated && "the database has a synchronous standby",
  ];
  node.dataset.state = cluster.troubles.length ? "plain" : "good";
  tell(node, parts.filter(Boolean).join(" · "));
}

// Where this is: the machine, and the address of the protocol.
function showName(state) {
  const host = state.host || location.hostname;
  get("name").textContent = state.service || state.cluster ? `purgatory on ${host}` : state.name;
  get("where").textContent = state.address || location.host;
  const trouble = state.cluster?.role === "standby" ? "standby · " : state.health?.not_ready ? "not ready · " : "";
  document.title = `${trouble}${compact(state.pending)} pending · ${get("name").textContent}`;
}

// Is it well? `broken` and `not_ready` say why not; without a judgement nothing is shown. Nothing
// is green while jobs are stuck, or the server lacks others: `but` says what is the matter.
function showHealth({ health, troubles, cluster }) {
  const node = get("health");
  node.hidden = !health;
  if (!health) return;
  const trouble = health.broken || health.not_ready;
  const but = troubles?.length ? "jobs need attention" : cluster?.troubles.length ? "not protected" : "";
  const [state, text] = cluster?.role === "standby" && cluster.active ? ["plain", `Stands by: ${cluster.active} is active`]
    : trouble ? ["bad", `${health.broken ? "Does not work" : "Not ready"}: ${trouble}`]
    : but ? ["warning", `Ready, but ${but}`]
    : ["good", "Ready: commits succeed, outcomes are delivered on time"];
  node.dataset.state = state;
  tell(node, text);
}

// The server does not answer: what is shown is old.
function showLost() {
  const node = get("health");
  if (node.dataset.state === "lost") return;
  node.hidden = false;
  node.dataset.state = "lost";
  tell(node, `No answer since ${new Date().toLocaleTimeString("en-GB")}: what is shown is older`);
  document.title = `no answer · ${get("name").textContent}`;
}

// Set a text, unless it is the same: a screen reader reads each change.
function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// What is due next, of the operations that the server shows; else the first occupied slot of each
// level, from its hand on, says it.
function showNext({ levels, now_ms: now, pending: count, operations }) {
  if (operations?.next.length) {
    const [{ due_ms: at, kind }] = operations.next;
    const ahead = Math.max(0, at - operations.now_ms);
    figures.next.show(until(ahead), ahead, kind && `kind ${kind}`);
    return;
  }
  const starts = levels.flatMap(({ tick_ms: tick, slots }) => {
    const first = Math.floor(now / tick);
    const ahead = slots.findIndex((_, n) => slots[(first + n) % slots.length]);
    return ahead < 0 ? [] : [[(first + ahead) * tick - now, tick]];
  });
  if (!count || !starts.length) {
    const held = Number(get("held").dataset.value);
    figures.next.show("–", -1, held ? "no deadline is ahead; events are held" : "no deadline is ahead");
    return;
  }
  const [wait, tick] = starts.reduce((a, b) => (b[0] < a[0] ? b : a));
  const whole = Math.max(0, Math.round(wait));
  figures.next.show(whole < 1000 ? "now" : `in ${duration(whole)}`, whole, `or up to ${duration(Math.max(1, tick))} later`);
}

function showService(service, health) {
  figures.unread.count(service.unacknowledged, "kept for their clients");
  figures.refused.count(service.refused, "requests or operations");
  figures.commits.count(service.commit_failures, `of ${compact(service.commits + service.commit_failures)}`, health?.failing_s > 0);
  if (health) {
    const late = Math.round(health.oldest_due_age_s * 1000);
    figures.late.show(late < 1000 ? "nothing" : duration(late), late, "the oldest undelivered", late >= 5000);
  }
  figures.clients.count(service.connections, counted(service.messages, "message", compact));
  figures.disk.show(bytes(service.store_bytes), service.store_bytes, counted(service.commits, "commit", compact));
}

// The history that the server keeps: a row a second, [uptime, completed, expired, cancelled,
// pending, mailbox, executor, failed]. The charts start from it, and again after a pause.
function recall(rows, uptime) {
  const now = performance.now() / 1000;
  const at = (row) => now - (uptime - row[0]);
  outcomes.start(rows.slice(1).map((row, n) => {
    const before = rows[n];
    return [at(row), [1, 2, 7, 3].map((column) => Math.max(0, row[column] - before[column]) / (row[0] - before[0]))];
  }));
  pending.start(rows.map((row) => [at(row), [row[4]]]));
  backlog.start(rows.map((row) => [at(row), [row[5], row[6]]]));
  if (showsHour) return;
  recent = rows.slice(-RATE_SECONDS - 1).map((row) => [at(row), { uptime_s: row[0],
    outcomes: { completed: row[1], expired: row[2], failed: row[7], cancelled: row[3] } }]);
}

function showLateness({ bounds_ms: bounds, counts }) {
  const short = (ms) => (ms < 1000 ? `${ms}` : `${ms / 1000}s`);
  const bars = counts.map((count, n) => ({
    count,
    label: n < bounds.length ? short(bounds[n]) : "more",
    name: n < bounds.length ? `at most ${duration(bounds[n])} late` : `more than ${duration(bounds.at(-1))} late`,
  }));
  lateness.show(bars);
  get("lateness-summary").textContent = summary(bounds, counts);
  const total = counts.reduce((a, b) => a + b, 0);
  const [recently, some] = lately(counts);
  figures.punctual.show(some ? within(bounds, recently, 0.99).replace("within", "≤") : "–", some, "99 % of the last minute");
  const rows = bars.map(({ count }, n) => element("tr", {},
    element("th", { scope: "row" }, n < bounds.length ? duration(bounds[n]) : "more"),
    element("td", {}, whole(count))));
  get("lateness-table").tBodies[0].replaceChildren(...rows);
}

let latenessSeen = []; // of the last minute: [seconds, counts], oldest first

// How many expired by lateness within the last minute, and their sum.
function lately(counts) {
  const now = performance.now() / 1000;
  if (latenessSeen.length && latenessSeen.at(-1)[1].some((count, n) => count > counts[n])) latenessSeen = []; // a restart
  latenessSeen.push([now, counts]);
  while (latenessSeen.length > 2 && latenessSeen[1][0] <= now - JOB_SECONDS) latenessSeen.shift();
  const recently = counts.map((count, n) => count - latenessSeen[0][1][n]);
  return [recently, recently.reduce((a, b) => a + b, 0)];
}

function summary(bounds, counts) {
  const total = counts.reduce((a, b) => a + b, 0);
  if (!total) return "Start of an expiry minus its deadline, in ms. Nothing has expired yet.";
  const [half, most] = [0.5, 0.99].map((share) => within(bounds, counts, share));
  return `Start of an expiry minus its deadline, in ms, since the start: half ${half}, 99\u00a0% ${most}.`;
}

// How late a share of all operations was at most.
function within(bounds, counts, share) {
  let left = share * counts.reduce((a, b) => a + b, 0);
  const n = counts.findIndex((count) => (left -= count) <= 0);
  if (bounds[n] === 0) return "on time";
  return n < bounds.length ? `within ${duration(bounds[n])}` : `later than ${duration(bounds.at(-1))}`;
}

function status(state, text) {
  const node = get("status");
  node.dataset.state = state;
  tell(node, text);
}

async function fetched(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

let paused = false;
let timer = 0;
let asking = false;
let recalled = false; // whether the charts have the server's history
let recalledAt = 0;

async function ask() {
  clearTimeout(timer);
  recalled &&= !paused && !document.hidden;
  recalled &&= !showsHour || performance.now() - recalledAt < COARSE_SECONDS * 1000;
  if (paused || document.hidden || asking) return;
  asking = true;
  try {
    if (!recalled) {
      const history = await fetched("history.json");
      recall(showsHour ? history.hour : history.rows, history.uptime_s);
      recalled = true;
      recalledAt = performance.now();
    }
    const state = await fetched("state.json");
    if (!paused) {
      show(state);
      status("live", "updating");
    }
  } catch (error) {
    recalled = false;
    status("lost", "no answer");
    showLost();
    console.warn(error);
  }
  asking = false;
  timer = setTimeout(ask, calm.matches ? 2000 : 500);
}

function animate() {
  if (anchor && !paused && !calm.matches && get("status").dataset.state === "live") {
    rings.turn(anchor[0] + performance.now() - anchor[1], false);
  }
  requestAnimationFrame(animate);
}

get("pause").addEventListener("click", () => {
  paused = !paused;
  get("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) status("paused", "paused");
  ask();
});
get("span").addEventListener("click", () => {
  showsHour = !showsHour;
  get("span").textContent = showsHour ? "Show two minutes" : "Show an hour";
  get("span").setAttribute("aria-pressed", showsHour);
  for (const chart of [outcomes, pending, backlog]) chart.seconds = showsHour ? HOUR : SECONDS;
  recalled = false;
  ask();
});
document.addEventListener("visibilitychange", ask);
requestAnimationFrame(animate);
ask();
