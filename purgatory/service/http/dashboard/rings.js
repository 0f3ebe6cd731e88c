// The wheel: a ring for each level, with its occupied slots and its hand.

import { compact, counted, duration, element, shape, whole } from "./text.js";

const CENTRE = 100;
const OUTER = 90;
const INNER = 64;
// In a ring with more slots than this, several share one arc.
const MOST_ARCS = 120;
// The eye cannot follow a faster hand: it is shown where it was when the state was read.
const SLOWEST_BLUR_MS = 2000;
// A level exists from its first operation on. So many are drawn in any case, those that do not exist
// empty, so that an idle wheel looks like a wheel.
const LEAST_RINGS = 6;

function point(radius, turn) {
  const angle = 2 * Math.PI * turn;
  return `${(CENTRE + radius * Math.sin(angle)).toFixed(2)} ${(CENTRE - radius * Math.cos(angle)).toFixed(2)}`;
}

function arc(from, to) {
  const gap = Math.min(0.0035, (to - from) * 0.16);
  const [start, end] = [from + gap, to - gap];
  const large = end - start > 0.5 ? 1 : 0;
  return `M${point(OUTER, start)}A${OUTER} ${OUTER} 0 ${large} 1 ${point(OUTER, end)}`
    + `L${point(INNER, end)}A${INNER} ${INNER} 0 ${large} 0 ${point(INNER, start)}Z`;
}

function shade(count, most) {
  return count === 0 ? 0 : Math.ceil((5 * count) / most);
}

class Ring {
  constructor(number, level) {
    this.number = number;
    this.size = level.slots.length;
    this.unused = !!level.unused;
    this.tick = level.tick_ms;
    this.fast = this.tick * this.size < SLOWEST_BLUR_MS;
    this.perArc = Math.ceil(this.size / MOST_ARCS);
    const arcs = Math.ceil(this.size / this.perArc);
    this.arcs = Array.from({ length: arcs }, (_, n) => shape("path", {
      class: "slot",
      d: arc((n * this.perArc) / this.size, Math.min(1, ((n + 1) * this.perArc) / this.size)),
    }));
    this.hand = shape("g", { class: "hand-group", "data-fast": this.fast },
      shape("line", { class: "hand", x1: CENTRE, x2: CENTRE, y1: CENTRE - INNER + 9, y2: CENTRE - OUTER - 2 }),
      shape("path", { class: "hand-tip", d: `M${CENTRE} ${CENTRE - OUTER + 1}l-5 -9h10z` }));
    this.count = shape("text", { class: "count", x: CENTRE, y: CENTRE + 4 });
    this.note = shape("text", { class: "count-note", x: CENTRE, y: CENTRE + 22 });
    this.svg = shape("svg", { viewBox: "0 0 200 200", role: "img" }, ...this.arcs, this.hand, this.count, this.note);
    this.figure = element("figure", { class: "ring", "data-level": number }, this.svg,
      element("figcaption", {}, `Level ${number}`,
        element("small", {}, `slots of ${duration(this.tick)}`),
        element("small", {}, `${duration(this.tick * this.size)} round`)));
    if (this.unused) this.figure.dataset.unused = "";
    this.row = element("tr", {}, element("th", { scope: "row" }, String(number)),
      ...Array.from({ length: 5 }, () => element("td")));
  }

  fits(level) {
    return this.size === level.slots.length && this.tick === level.tick_ms && this.unused === !!level.unused;
  }

  show(level) {
    const counts = this.arcs.map((_, n) =>
      level.slots.slice(n * this.perArc, (n + 1) * this.perArc).reduce((a, b) => a + b, 0));
    const most = Math.max(...counts);
    counts.forEach((count, n) => {
      const fill = shade(count, most);
      if (fill) this.arcs[n].setAttribute("data-fill", fill);
      else this.arcs[n].removeAttribute("data-fill");
    });
    const total = level.slots.reduce((a, b) => a + b, 0);
    const occupied = level.slots.filter(Boolean).length;
    this.count.textContent = compact(total);
    this.note.textContent = this.unused ? "not in use" : `${occupied} of ${this.size} slots`;
    this.figure.dataset.count = total;
    this.figure.dataset.occupied = occupied;
    this.svg.setAttribute("aria-label", `Level ${this.number}: ${counted(total, "operation")} in ${occupied} `
      + `of ${this.size} slots of ${duration(this.tick)}; the hand is at slot ${level.hand}`);
    const cells = [duration(this.tick), duration(this.tick * this.size), whole(total), occupied, level.hand];
    cells.forEach((cell, n) => { this.row.children[n + 1].textContent = cell; });
  }

  turn(nowMs) {
    const whole = this.tick * this.size;
    this.hand.setAttribute("transform", `rotate(${((nowMs % whole) / whole) * 360} ${CENTRE} ${CENTRE})`);
  }
}

// Add the levels that a wheel would have next.
function withUnused(levels, nowMs) {
  const all = [...levels];
  while (all.length && all.length < LEAST_RINGS) {
    const { tick_ms: tick, slots } = all.at(-1);
    const longer = tick * slots.length;
    all.push({ tick_ms: longer, slots: slots.map(() => 0), hand: Math.floor(nowMs / longer) % slots.length, unused: true });
  }
  return all;
}

export class Rings {
  constructor(place, table) {
    this.place = place;
    this.table = table;
    this.rings = [];
  }

  show(known, nowMs) {
    const levels = withUnused(known, nowMs);
    if (levels.length !== this.rings.length || levels.some((level, n) => !this.rings[n].fits(level))) {
      this.rings = levels.map((level, n) => new Ring(n, level));
      this.place.replaceChildren(...this.rings.map((ring) => ring.figure));
      this.table.replaceChildren(...this.rings.filter((ring) => !ring.unused).map((ring) => ring.row));
    }
    this.rings.forEach((ring, n) => ring.show(levels[n]));
  }

  // Turn the hands to a time; those too fast to follow only if `seen`, when a state has arrived.
  turn(nowMs, seen) {
    for (const ring of this.rings) if (seen || !ring.fast) ring.turn(nowMs);
  }
}
