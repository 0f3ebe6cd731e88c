// Polls /state.json and shows it. Nothing here changes anything on the server.

import { Bars, Lines } from "./charts.js";
import { Rings } from "./rings.js";
import { bytes, compact, duration, element, rate, whole } from "./text.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const OUTCOMES = ["completed", "expired", "cancelled"];
// Seconds over which a rate is averaged, so that it does not jump with every state.
const RATE_SECONDS = 2;
const SECONDS = 120;
const get = (id) => document.getElementById(id);

class Tile {
  constructor(id, title, tone) {
    this.value = element("dd", { class: "value", id }, "–");
    this.note = element("dd", { class: "note", id: `${id}-note` });
    this.node = element("div", { class: "tile" }, element("dt", {}, title), this.value, this.note);
    if (tone) this.node.dataset.tone = tone;
  }

  show(text, raw, note) {
    this.value.textContent = text;
    this.value.dataset.value = raw;
    this.note.textContent = note;
  }
}

const tiles = {
  pending: new Tile("pending", "Pending"),
  completed: new Tile("completed", "Completed/s", "completed"),
  expired: new Tile("expired", "Expired/s", "expired"),
  cancelled: new Tile("cancelled", "Cancelled/s", "cancelled"),
  mailbox: new Tile("mailbox", "Mailbox backlog"),
  executor: new Tile("executor", "Executor backlog"),
};
get("tiles").append(...Object.values(tiles).map((tile) => tile.node));
const serviceTiles = {
  clients: new Tile("clients", "Clients"),
  disk: new Tile("disk", "On disk"),
};

const rings = new Rings(get("rings"), get("wheel-table").tBodies[0]);
const outcomes = new Lines(get("outcomes-chart"), get("outcomes-legend"), [
  { name: "completed", tone: "completed" },
  { name: "expired", tone: "expired" },
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

function show(state) {
  const seconds = performance.now() / 1000;
  const perSecond = rates(seconds, state);
  get("name").textContent = state.name;
  document.title = `${compact(state.pending)} pending · ${state.name}`;
  get("uptime").textContent = `up ${duration(Math.floor(state.uptime_s) * 1000)}`;
  get("version").textContent = state.version;
  tiles.pending.show(whole(state.pending), state.pending, `${whole(state.watched_keys)} watched keys`);
  OUTCOMES.forEach((name, n) => {
    tiles[name].show(rate(perSecond[n]), state.outcomes[name], `${whole(state.outcomes[name])} in all`);
  });
  tiles.mailbox.show(whole(state.mailbox.depth), state.mailbox.depth, `${whole(state.mailbox.commands)} commands`);
  tiles.executor.show(whole(state.executor_backlog), state.executor_backlog, "due, not started");
  if (state.service) showService(state.service);
  rings.show(state.levels);
  anchor = [state.now_ms, performance.now()];
  rings.turn(state.now_ms, true);
  outcomes.add(seconds, perSecond);
  pending.add(seconds, [state.pending]);
  backlog.add(seconds, [state.mailbox.depth, state.executor_backlog]);
  showLateness(state.lateness);
}

function showService(service) {
  if (!serviceTiles.clients.node.isConnected) {
    get("tiles").append(...Object.values(serviceTiles).map((tile) => tile.node));
  }
  serviceTiles.clients.show(whole(service.connections), service.connections, `${compact(service.unacknowledged)} outcomes unread`);
  serviceTiles.disk.show(bytes(service.store_bytes), service.store_bytes, `${compact(service.commits)} commits`);
}

// The history that the server keeps: a row a second, [uptime, completed, expired, cancelled,
// pending, mailbox, executor]. The charts start from it, and again after a pause.
function recall(rows, uptime) {
  const now = performance.now() / 1000;
  const at = (row) => now - (uptime - row[0]);
  outcomes.start(rows.slice(1).map((row, n) => {
    const before = rows[n];
    return [at(row), [1, 2, 3].map((column) => (row[column] - before[column]) / (row[0] - before[0]))];
  }));
  pending.start(rows.map((row) => [at(row), [row[4]]]));
  backlog.start(rows.map((row) => [at(row), [row[5], row[6]]]));
  recent = rows.slice(-RATE_SECONDS - 1).map((row) => [at(row), { uptime_s: row[0],
    outcomes: { completed: row[1], expired: row[2], cancelled: row[3] } }]);
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
  const rows = bars.map(({ count }, n) => element("tr", {},
    element("th", { scope: "row" }, n < bounds.length ? duration(bounds[n]) : "more"),
    element("td", {}, whole(count))));
  get("lateness-table").tBodies[0].replaceChildren(...rows);
}

function summary(bounds, counts) {
  const total = counts.reduce((a, b) => a + b, 0);
  if (!total) return "Start of an expiry minus its deadline, in ms. Nothing has expired yet.";
  const within = (share) => {
    let left = share * total;
    const n = counts.findIndex((count) => (left -= count) <= 0);
    if (bounds[n] === 0) return "on time";
    return n < bounds.length ? `within ${duration(bounds[n])}` : `later than ${duration(bounds.at(-1))}`;
  };
  return `Start of an expiry minus its deadline, in ms, since the start: half ${within(0.5)}, 99\u00a0% ${within(0.99)}.`;
}

function status(state, text) {
  const node = get("status");
  node.dataset.state = state;
  if (node.textContent !== text) node.textContent = text;
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

async function ask() {
  clearTimeout(timer);
  recalled &&= !paused && !document.hidden;
  if (paused || document.hidden || asking) return;
  asking = true;
  try {
    if (!recalled) {
      const history = await fetched("history.json");
      recall(history.rows, history.uptime_s);
      recalled = true;
    }
    const state = await fetched("state.json");
    if (!paused) {
      show(state);
      status("live", "live");
    }
  } catch (error) {
    recalled = false;
    status("lost", "no answer");
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
document.addEventListener("visibilitychange", ask);
requestAnimationFrame(animate);
ask();
