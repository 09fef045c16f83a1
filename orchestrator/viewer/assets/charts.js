// Small charts as inline SVG, each with its figures as text beside or below it.

import { make } from "./elements.js";

export const WIDTH = 300;
export const HEIGHT = 90;

// `histogram` has low, high, counts.
export function histogram(name, { low, high, counts }, show) {
  const most = Math.max(...counts, 1);
  const width = WIDTH / Math.max(counts.length, 1);
  const step = counts.length ? (high - low) / counts.length : 0;
  const bars = counts.map((count, index) => make("rect", {
    class: "bar-mark", x: index * width, width: Math.max(width - 1, 0.5),
    y: HEIGHT - (count / most) * HEIGHT, height: (count / most) * HEIGHT,
  }, make("title", {}, `${show(low + index * step)} to ${show(low + (index + 1) * step)}: ${count}`)));
  return chart(name, bars, counts.length
    ? `${show(low)} to ${show(high)}; the highest bar ${most} episodes` : "no finished episode has one");
}

// A line over time; absent values leave a gap.
export function line(name, xs, values, show, { most } = {}) {
  const there = values.filter((value) => value !== null);
  const top = most ?? Math.max(...there, 1e-9);
  const end = xs.at(-1) ?? 1;
  let path = "";
  let drawing = false;
  values.forEach((value, index) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const point = `${((xs[index] / end) * WIDTH).toFixed(1)},${(HEIGHT - (value / top) * HEIGHT).toFixed(1)}`;
    path += `${drawing ? "L" : "M"}${point}`;
    drawing = true;
  });
  const last = there.at(-1);
  return chart(name, [make("path", { class: "line-mark", d: path })],
    there.length ? `up to ${show(Math.max(...there))}, last ${show(last)}` : "nothing yet");
}

export function chart(name, marks, text) {
  return make("figure", { class: "chart" },
    make("figcaption", {}, name),
    make("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${name}: ${text}`, preserveAspectRatio: "none",
    }, make("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }), marks),
    make("p", { class: "quiet small" }, text));
}
