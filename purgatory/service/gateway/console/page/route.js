// What is shown, as the part of the URL behind `#`: `#jobs?state=dead`, `#job?id=invoice-17`.
export function route() {
  const [view, search = ""] = location.hash.slice(1).split("?", 2);
  return { view: view || "jobs", wanted: Object.fromEntries(new URLSearchParams(search)) };
}

export function hash(view, wanted = {}) {
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined && value !== "");
  return `#${view}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

export function go(view, wanted) {
  location.hash = hash(view, wanted);
}
