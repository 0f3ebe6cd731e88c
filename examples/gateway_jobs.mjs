// Follows the outcomes of waits: node gateway_jobs.mjs URL TOKEN [COUNT]. See docs/gateway.md.
//
// For each wait that expired, it schedules a job, which a worker does (gateway_worker.mjs).
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
for await (const { number, op_id, outcome, kind, payload } of events()) {
  console.log(`${kind} ${outcome}: ${JSON.stringify(payload)}`);
  if (outcome === "expired") {
    // The id is made from the operation's: an outcome that is delivered twice schedules one job.
    await post("jobs", { delay: 0, kind: "mail", job_id: `remind:${op_id}`, payload });
  }
  await post("outcomes/acknowledge", { numbers: [number] }); // after the work: at least once
  if (++done >= Number(count)) process.exit(0);
}
