// Texts for moments, durations and values.
import { counted, duration, whole } from "./text.js";

export { counted, duration, whole };

const two = (number) => String(number).padStart(2, "0");

// A moment in local time: 2027-03-01 09:00:00.
export function moment(ms) {
  if (ms === null || ms === undefined) return "";
  const at = new Date(ms);
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":")}`;
}

// How far a moment is: in 5 min, 3 s ago.
export function distance(ms) {
  if (ms === null || ms === undefined) return "";
  const away = ms - Date.now();
  if (Math.abs(away) < 1000) return "now";
  const text = duration(Math.floor(Math.abs(away) / 1000) * 1000);
  return away > 0 ? `in ${text}` : `${text} ago`;
}

const ZONED = new Intl.DateTimeFormat("en", { timeZoneName: "short" });

// The browser's time zone at a moment, as UTC or GMT+2: all moments are shown in it.
const zone = (ms) => ZONED.formatToParts(ms).find(({ type }) => type === "timeZoneName").value;

export const both = (ms) => (ms ? `${moment(ms)} ${zone(ms)} (${distance(ms)})` : "");

export const between = (begun, ended) => (begun === null ? "" : duration(Math.max(0, (ended ?? Date.now()) - begun)));

const isExact = (number, source) => !Number.isInteger(number) || Number.isSafeInteger(number) || !/^-?\d+$/.test(source);

// The gateway's JSON; integers that a number cannot hold are BigInts, as far as the browser tells what was written.
export const parsed = (text) => JSON.parse(text, (_, found, { source } = {}) => (isExact(found, source) ? found : BigInt(source)));

const written = (_, found) => (typeof found === "bigint" ? JSON.rawJSON(found) : found);

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, written, 2));

export const total = (states, ...names) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0);

// The JSON of a value that was typed: JSON, as it was typed, or else a text; nothing is null.
export function json(text) {
  if (text.trim() === "") return "null";
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
  }
}

// A time that was typed: "30m" from now, or a moment, local unless it has a zone.
export function time(text) {
  const typed = text.trim();
  if (!/^\d{4}-\d\d-\d\d/.test(typed)) return { delay: /^\d+(\.\d+)?$/.test(typed) ? Number(typed) : typed };
  const at = new Date(typed.length === 10 ? `${typed}T00:00` : typed.replace(" ", "T")); // a day alone would be one of UTC
  if (Number.isNaN(at.getTime())) throw new RangeError(`${typed} is no moment; expected one such as 2027-03-01T09:00`);
  return { at: at.toISOString() };
}
