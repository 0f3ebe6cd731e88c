// Server-sent events over fetch: an EventSource cannot send the token in a header.
import { Refusal, send } from "./api.js";

const LONGEST_MS = 10_000;
const MOST_CHARACTERS = 1 << 22; // of an event
const REFUSED = new Set([401, 403]);

// Follow a stream until `signal` aborts it; connects again when it ends.
// `on`: {event(name, data), lost(error), refused(error)}.
export async function follow(where, on, signal) {
  let wait = 1000;
  while (!signal.aborted) {
    try {
      const response = await send("GET", where, { signal });
      for await (const [name, data] of events(response.body)) {
        if (name !== "problem") wait = 1000; // a refusal would be asked for again and again
        on.event(name, data);
      }
      on.lost(new Refusal(0, "ended", "The stream has ended."));
    } catch (error) {
      if (signal.aborted) return;
      if (REFUSED.has(error.status)) return on.refused(error);
      on.lost(error);
    }
    await pause(wait, signal);
    wait = Math.min(2 * wait, LONGEST_MS);
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    if (text.length > MOST_CHARACTERS) throw new Refusal(0, "large", "An event is too large.");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  let name = "";
  let data = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data = JSON.parse(line.slice(6));
  }
  return [name, data];
}
