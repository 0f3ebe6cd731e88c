// Requests to the gateway that served this page, each with the token in a header.
import { parsed } from "./format.js";
import { queryOf } from "./route.js";
import { session } from "./session.js";

// A request that was refused: `status` 0 means that there was no answer.
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const path = (...parts) => `/v1/${parts.map(encodeURIComponent).join("/")}`;

// Send a request; a body that is a text is sent as it is. Throws Refusal, and AbortError.
export async function send(method, where, { query = {}, body, signal } = {}) {
  if (/[^!-~]/.test(session.token)) throw new Refusal(401, "token", "A token has no such characters."); // no header can
  const headers = { Authorization: `Bearer ${session.token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(where + queryOf(query), {
      method,
      headers,
      body: typeof body === "object" ? JSON.stringify(body) : body,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "unreachable", "The gateway does not answer.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const { code, message } = await response.json().catch(() => ({}));
  return new Refusal(response.status, code ?? "error", message ?? `Status ${response.status}`);
}

export async function get(where, query, signal) {
  return parsed(await (await send("GET", where, { query, signal })).text());
}

// Read so many pages of a list: its rows, and the cursor of the next page. A page may be empty though there are more.
export async function read(list, query, pages, signal) {
  const rows = [];
  let cursor;
  for (let page = 0; page < pages && cursor !== null;) {
    const found = await get(path(list), { ...query, cursor }, signal);
    rows.push(...found[list]);
    cursor = found.cursor;
    if (found[list].length) page += 1;
  }
  return [rows, cursor];
}

export async function change(method, where, body) {
  return (await send(method, where, { body })).json();
}
