// A worker: node gateway_worker.mjs URL TOKEN [COUNT]. See docs/gateway.md.
//
// Each job is leased to one worker at a time. It is done when it is acknowledged; if this program
// ends before, another one gets it when the lease has ended.
const [url, token, count = "Infinity"] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
const LEASE_S = 30;

const handlers = {
  async mail(job) {
    if (job.payload.fail === job.attempt) throw new Error("not now");
    console.log(`attempt ${job.attempt} at ${job.job_id}: mail to ${job.payload.to}`);
  },
};

async function post(path, body) {
  const answer = await fetch(`${url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return answer.json();
}

async function run(job) {
  const leases = [job.lease];
  // However long the handler runs, no other worker gets the job.
  const keeping = setInterval(() => post("leases/keep", { leases }).catch(console.error), (LEASE_S * 1000) / 3);
  try {
    const result = await handlers[job.kind](job);
    await post("leases/acknowledge", { leases, results: [result ?? null] });
    return true;
  } catch (error) {
    await post("leases/return", { leases, error: { type: error.name, message: error.message }, delay: "50ms" });
    return false;
  } finally {
    clearInterval(keeping);
  }
}

let done = 0;
while (done < Number(count)) {
  const { jobs } = await post("leases", { kinds: Object.keys(handlers), limit: 4, lease: LEASE_S, wait: 20 });
  for (const ended of await Promise.all(jobs.map(run))) done += ended;
}
