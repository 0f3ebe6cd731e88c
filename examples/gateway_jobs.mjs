// Does delayed jobs: node gateway_jobs.mjs URL TOKEN [COUNT]. See docs/gateway.md.
//
// A job is an operation that waits for a key that is never completed: it expires when it is due.
const [url, token, count = "Infinity"] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

async function post(path, body) {
  const answer = await fetch(`${url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return answer.json();
}

async function* events() {
  const answer = await fetch(`${url}/v1/outcomes/stream`, { headers });
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  let text = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + chunk).split(/\r?\n/);
    text = lines.pop();
    for (const line of lines) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
  }
}

let done = 0;
for await (const outcome of events()) {
  console.log(`${outcome.kind}: ${JSON.stringify(outcome.payload)}`);
  await post("outcomes/acknowledge", { numbers: [outcome.number] }); // after the work: at least once
  if (outcome.payload?.then) {
    const job = { keys: ["never"], timeout: 0, kind: "thanks", payload: { of: outcome.op_id } };
    await post("operations", job);
  }
  if (++done >= Number(count)) process.exit(0);
}
