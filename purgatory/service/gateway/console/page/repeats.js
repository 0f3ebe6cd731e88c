// Repeats: jobs by the calendar or at intervals, with their next times.
import { changeRepeat, deleteRepeat } from "./actions.js";
import { read } from "./api.js";
import { both, counted, duration, whole } from "./format.js";
import { session } from "./session.js";
import { button, element, redrawn, table } from "./widgets.js";

const HEAD = ["Repeat", "Client", "Kind", "Times", "Next", "Last", "Skipped", "Actions"];
const PAGE = 100;

export function repeatsView() {
  const list = element("div", {});
  let pages = 1;

  async function refresh() {
    const [found, cursor] = await read("repeats", { client: session.access.sees_all ? "*" : undefined, limit: PAGE }, pages);
    const head = session.may("submit") ? HEAD : HEAD.slice(0, -1);
    const more = cursor === null ? [] : [button("More", async () => { pages += 1; await refresh(); }, { "data-key": "more" })];
    const text = found.length ? `${counted(found.length, "repeat")} shown` : "There are no repeats.";
    redrawn(list, table("Repeats", head, found.map(cells)), element("p", { class: "lead" }, text), ...more);
  }

  function cells(repeat) {
    const facts = [
      repeat.name, repeat.client, repeat.kind, times(repeat),
      repeat.paused ? "paused" : both(repeat.next_ms), both(repeat.last_ms), whole(repeat.skipped),
    ];
    return session.may("submit") ? [...facts, [actions(repeat)]] : facts;
  }

  function actions(repeat) {
    const act = (text, work, attributes = {}) => button(text, async () => { await work(); await refresh(); },
      { "data-key": `${text === "Resume" ? "Pause" : text} ${repeat.client} ${repeat.name}`, "aria-label": `${text.replace("…", "")} ${repeat.name}`, ...attributes });
    return element("span", { class: "buttons" },
      act("Run now", () => changeRepeat(repeat, "run", "runs now")),
      repeat.paused
        ? act("Resume", () => changeRepeat(repeat, "resume", "goes on"))
        : act("Pause", () => changeRepeat(repeat, "pause", "is paused")),
      act("Delete…", () => deleteRepeat(repeat), { class: "danger" }));
  }

  return { title: "Repeats", nodes: [list], refresh, counted: refresh };
}

const times = (repeat) => (repeat.cron === null ? `every ${duration(repeat.every * 1000)}` : `${repeat.cron} (${repeat.tz})`);
