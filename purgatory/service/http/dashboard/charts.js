// Line charts of the last minutes, and bar charts; redrawn with each state.

import { compact, counted, element, rate, shape, whole } from "./text.js";

// With bars narrower than this, only every other one has a label.
const NARROW = 30;
const LEFT = 44;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

// Round up to the next of 1, 2, 5, 10, 20 ...
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999999);
}

// The end of an axis and its two to five grid lines, at round numbers.
function axis(most) {
  const step = ceiling(Math.max(most / 4, 1));
  const lines = Math.max(1, Math.ceil(Math.max(most, 1) / step - 1e-9));
  return { reach: step * lines, ticks: Array.from({ length: lines + 1 }, (_, n) => n * step) };
}

class Chart {
  constructor(place) {
    this.place = place;
    this.svg = shape("svg", { role: "img" });
    place.append(this.svg);
    this.tip = document.getElementById("tip");
    this.svg.addEventListener("pointermove", (event) => { this.pointer = event; this.point(); });
    this.svg.addEventListener("pointerleave", () => { this.pointer = null; this.point(); });
    new ResizeObserver(() => this.draw()).observe(place);
  }

  frame(most) {
    this.width = this.place.clientWidth;
    this.height = this.place.clientHeight;
    if (this.width < 2 * LEFT || this.height < 2 * BOTTOM) return false; // not laid out yet
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const { reach, ticks } = axis(most);
    this.y = (value) => this.height - BOTTOM - (value / reach) * (this.height - TOP - BOTTOM);
    const lines = ticks.flatMap((tick) => [
      shape("line", { class: tick ? "grid" : "axis", x1: LEFT, x2: this.width - RIGHT, y1: this.y(tick), y2: this.y(tick) }),
      shape("text", { x: LEFT - 7, y: this.y(tick) + 4, "text-anchor": "end" }, compact(tick)),
    ]);
    this.svg.replaceChildren(...lines);
    return true;
  }

  tell(text, event) {
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const x = event.clientX + 14 + wide > innerWidth ? event.clientX - 14 - wide : event.clientX + 14;
    this.tip.style.left = `${Math.max(4, x)}px`;
    this.tip.style.top = `${Math.max(4, event.clientY - high - 10)}px`;
  }
}

export class Lines extends Chart {
  // `series`: name, tone, and whether dashed; `seconds`: how far back; `format`: of the values.
  constructor(place, legend, series, seconds, format = rate) {
    super(place);
    this.series = series;
    this.seconds = seconds;
    this.format = format;
    this.samples = []; // [seconds, value of each series], oldest first
    this.values = series.map(() => element("b"));
    legend.replaceChildren(...series.map(({ name, tone, dashed }, n) => element("li", { "data-tone": tone },
      shape("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" },
        shape("line", { class: dashed ? "series dashed" : "series", x1: 1, x2: 21, y1: 5, y2: 5 })),
      `${name} `, this.values[n])));
  }

  // Replace all samples.
  start(samples) {
    this.samples = samples;
    if (samples.length) this.add(...samples.pop());
    else this.draw(); // as far back as it goes now
  }

  add(seconds, values) {
    this.samples.push([seconds, values]);
    while (this.samples[0][0] < seconds - this.seconds - 2) this.samples.shift();
    values.forEach((value, n) => { this.values[n].textContent = this.format(value); });
    this.draw();
  }

  draw() {
    if (!this.samples) return;
    const end = this.samples.length ? this.samples.at(-1)[0] : 0;
    if (!this.frame(Math.max(0, ...this.samples.flatMap(([, values]) => values)))) return;
    this.x = (seconds) => LEFT + (1 - (end - seconds) / this.seconds) * (this.width - LEFT - RIGHT);
    for (const back of [this.seconds, this.seconds / 2, 0]) {
      const anchor = back === this.seconds ? "start" : back ? "middle" : "end";
      this.svg.append(shape("text", { x: this.x(end - back), y: this.height - 5, "text-anchor": anchor },
        back ? (back < 600 ? `${back} s ago` : `${back / 60} min ago`) : "now"));
    }
    const seen = this.samples.filter(([seconds]) => seconds >= end - this.seconds);
    this.series.forEach(({ name, tone, dashed }, n) => {
      const path = seen.map(([seconds, values], i) => `${i ? "L" : "M"}${this.x(seconds).toFixed(1)} ${this.y(values[n]).toFixed(1)}`).join("");
      if (!path) return;
      const group = shape("g", { "data-tone": tone, "data-series": name });
      if (this.series.length === 1) {
        group.append(shape("path", { class: "area", d: `${path}L${this.x(end)} ${this.y(0)}L${this.x(seen[0][0])} ${this.y(0)}Z` }));
      }
      group.append(shape("path", { class: dashed ? "series dashed" : "series", d: path }));
      this.svg.append(group);
    });
    this.label(seen);
    this.point();
  }

  label(seen) {
    const told = this.series.map(({ name }, n) => {
      const values = seen.map(([, all]) => all[n]);
      return values.length ? `${name}: now ${this.format(values.at(-1))}, at most ${this.format(Math.max(...values))}` : name;
    });
    this.svg.setAttribute("aria-label", `The last ${this.seconds} seconds. ${told.join("; ")}`);
  }

  point() {
    for (const old of this.svg.querySelectorAll(".cross, .dot")) old.parentNode.remove();
    if (!this.pointer || !this.samples?.length) { this.tell("", null); return; }
    const across = this.pointer.clientX - this.svg.getBoundingClientRect().left;
    const near = this.samples.reduce((a, b) => (Math.abs(this.x(b[0]) - across) < Math.abs(this.x(a[0]) - across) ? b : a));
    const x = this.x(near[0]);
    const marks = shape("g", {}, shape("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }));
    const dots = this.series.map(({ tone }, n) => shape("g", { "data-tone": tone }, shape("circle", { class: "dot", cx: x, cy: this.y(near[1][n]), r: 4.5 })));
    this.svg.append(marks, ...dots);
    const ago = Math.round(this.samples.at(-1)[0] - near[0]);
    const lines = this.series.map(({ name }, n) => `${name} ${this.format(near[1][n])}`);
    this.tell([ago ? `${ago} s ago` : "now", ...lines].join("\n"), this.pointer);
  }
}

export class Bars extends Chart {
  // `bars`: label, name for the tooltip, and count.
  show(bars) {
    this.bars = bars;
    this.draw();
  }

  draw() {
    if (!this.bars) return;
    if (!this.frame(Math.max(0, ...this.bars.map(({ count }) => count)))) return;
    const step = (this.width - LEFT - RIGHT) / this.bars.length;
    const gap = Math.min(6, step * 0.2);
    this.rects = this.bars.map(({ count }, n) => {
      const top = Math.min(this.y(count), this.y(0) - (count ? 2 : 0));
      return shape("rect", { class: "bar", x: LEFT + n * step + gap / 2, y: top, width: step - gap, height: this.y(0) - top, rx: 2 });
    });
    const named = this.bars.map(({ label }, n) => [label, n]).filter(([, n]) => step >= NARROW || n % 2 === 0);
    const labels = named.map(([label, n]) => shape("text", { x: LEFT + (n + 0.5) * step, y: this.height - 5, "text-anchor": "middle" }, label));
    this.svg.append(...this.rects, ...labels);
    this.svg.setAttribute("aria-label", this.bars.map(({ name, count }) => `${name}: ${whole(count)}`).join("; "));
    this.point();
  }

  point() {
    if (!this.pointer || !this.bars) { this.tell("", null); return; }
    const across = this.pointer.clientX - this.svg.getBoundingClientRect().left - LEFT;
    const bar = this.bars[Math.floor((across / (this.width - LEFT - RIGHT)) * this.bars.length)];
    this.tell(bar ? `${bar.name}\n${counted(bar.count, "operation")}` : "", this.pointer);
  }
}
