// Formats numbers, durations and foreign texts, and makes elements.

const NUMBER = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const SVG = "http://www.w3.org/2000/svg";

export function whole(value) {
  return NUMBER.format(Math.round(value));
}

export function compact(value) {
  return value < 10000 ? whole(value) : COMPACT.format(value);
}

// A number of things: 1 message, 2,000 messages.
export function counted(count, noun, shown = whole) {
  return `${shown(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function rate(value) {
  return value > 0 && value < 10 ? value.toFixed(1) : compact(value);
}

const UNITS = [
  [365.25 * 86400e3, "year"], [86400e3, "day"], [3600e3, "hour"], [60e3, "min"], [1e3, "s"],
];

// Format a duration in its largest unit: 20 ms, 8 s, 2.2 min, 14.8 hours.
export function duration(ms) {
  for (const [length, name] of UNITS) {
    if (ms < length) continue;
    const count = ms / length;
    const digits = count >= 100 || Number.isInteger(count) ? whole(count) : count.toPrecision(count < 10 ? 2 : 3);
    const text = digits.replace(/\.0+$/, "");
    return `${text} ${name}${length >= 3600e3 && text !== "1" ? "s" : ""}`;
  }
  return `${ms} ms`;
}

const BYTES = ["bytes", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  const power = count < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** power;
  return `${power && value < 100 ? value.toFixed(1) : whole(value)} ${BYTES[power]}`;
}

// Control characters, but for tabs and line feeds, and marks of direction, which would reorder a name.
const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

// Escape unprintable characters, as commands do.
export function printable(text) {
  return text.replace(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map((child) => (typeof child === "string" ? printable(child) : child)));
  return node;
}
