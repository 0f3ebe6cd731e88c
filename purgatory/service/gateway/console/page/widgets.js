// Parts of views. Texts become text nodes: nothing that the server tells is ever markup.
import { element, printable } from "./text.js";

export { element, printable };

const notices = document.getElementById("notices");
const dialog = document.getElementById("dialog");
const NOTICE_MS = 8000;
// Rows of a list's page: on a phone each row is a card.
export const pageSize = matchMedia("(max-width: 40rem)").matches ? 15 : 50;

export function notice(text, tone = "good") {
  const line = element("p", { "data-tone": tone }, text);
  if (tone === "bad") line.setAttribute("role", "alert");
  const close = button("Close", () => line.remove(), { "aria-label": "Close the message" });
  line.append(close);
  notices.replaceChildren(line);
  if (tone !== "bad") setTimeout(() => line.remove(), NOTICE_MS);
}

// A button whose work may wait for an answer: it cannot be pressed again meanwhile.
export function button(text, work, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", () => busy(made, work));
  return made;
}

export async function busy(control, work) {
  if (control.getAttribute("aria-disabled") === "true") return;
  control.setAttribute("aria-disabled", "true");
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") notice(error.message, "bad");
  } finally {
    control.removeAttribute("aria-disabled");
  }
}

// Read again after an action. What the action has removed cannot be read; its notice says enough.
export async function reread(refresh) {
  try {
    await refresh();
  } catch (error) {
    if (error.status !== 404) throw error;
  }
}

// Ask before what cannot be undone; resolves to whether to go on.
export function confirmed(title, text, yes, no = "Keep") {
  for (const [part, said] of Object.entries({ title, text, yes, no })) {
    document.getElementById(`dialog-${part}`).textContent = printable(said);
  }
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

export function field(label, name, attributes = {}) {
  const input = element("input", { name, autocomplete: "off", spellcheck: "false", ...attributes });
  return element("label", {}, element("span", {}, label), input);
}

// A choice of a form: texts by value, and the value that is chosen.
export function choice(name, texts, chosen) {
  const options = Object.entries(texts).map(([value, text]) => element("option", { value, ...(value === chosen ? { selected: "" } : {}) }, text));
  return element("label", {}, element("span", {}, name), element("select", { name }, ...options));
}

// A form whose fields are given to `work` as an object of trimmed texts.
export function form(attributes, work, ...children) {
  const made = element("form", attributes, ...children);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(made)].map(([name, text]) => [name, text.trim()]));
    busy(made.querySelector("button:not([type=button])"), () => work(given));
  });
  return made;
}

// A table with a row header; on a phone each row is a card, and a cell has its column's name.
export function table(caption, head, rows) {
  const heads = head.map((text) => element("th", { scope: "col" }, text));
  return element("table", { class: "list" },
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows.map((row) => line(head, row))));
}

export function line(head, cells) {
  const made = cells.map((cell, at) => {
    const attributes = at ? { "data-label": head[at] } : { scope: "row" };
    return element(at ? "td" : "th", attributes, ...(Array.isArray(cell) ? cell : [cell]));
  });
  return element("tr", {}, ...made);
}

// A list of facts, without those that are empty.
export function facts(pairs) {
  const given = pairs.filter(([, text]) => text !== "" && text !== null && text !== undefined);
  return element("dl", { class: "facts-list" },
    ...given.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
}

export const badge = (state) => element("span", { class: "badge", "data-state": state }, state);

export function section(title, ...children) {
  const heading = element("h2", {}, title);
  return element("section", { "aria-label": title }, heading, ...children);
}

// Replace what a node has, and keep the focus on the same link or button; on the title if it is gone.
export function redrawn(node, ...children) {
  const before = node.contains(document.activeElement) ? document.activeElement : null;
  const id = before?.dataset.key;
  node.replaceChildren(...children);
  if (id === undefined) return;
  const after = [...node.querySelectorAll("[data-key]")].find((each) => each.dataset.key === id);
  (after ?? document.querySelector("main h2"))?.focus({ preventScroll: true });
}
