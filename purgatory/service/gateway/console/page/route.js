// What is shown, as the part of the URL behind `#`: `#jobs?state=dead`, `#job?id=invoice-17`.
export function route() {
  const [view, search = ""] = location.hash.slice(1).split("?", 2);
  return { view: view || "jobs", wanted: Object.fromEntries(new URLSearchParams(search)) };
}

// The query of a URL, with all that is not undefined: an empty text is a kind, too.
export function queryOf(wanted) {
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const hash = (view, wanted = {}) => `#${view}${queryOf(wanted)}`;

// Go to a view with what was typed: an empty field leaves all.
export function go(view, wanted = {}) {
  location.hash = hash(view, Object.fromEntries(Object.entries(wanted).filter(([, value]) => value)));
}
