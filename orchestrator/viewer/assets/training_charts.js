// Charts of trainings: a metric over its steps, scores with intervals from agent to agent.

import { HEIGHT, WIDTH, chart } from "./charts.js";
import { make } from "./elements.js";

// A metric over steps; the scale is from the least to the greatest value.
export function trend(name, { steps, values }, show) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [steps[0], steps.at(-1)];
  const x = (step) => (last > first ? ((step - first) / (last - first)) * WIDTH : WIDTH / 2);
  const y = (value) => (high > low ? HEIGHT - ((value - low) / (high - low)) * HEIGHT : HEIGHT / 2);
  const points = steps.map((step, index) => `${x(step).toFixed(1)},${y(values[index]).toFixed(1)}`);
  // A single point would be a path without length.
  if (points.length === 1) points.push(`${WIDTH},${y(values[0]).toFixed(1)}`);
  return chart(name, [make("path", { class: "line-mark", d: `M${points.join("L")}` })],
    `${show(low)} to ${show(high)}, last ${show(values.at(-1))} at step ${last}`);
}

// Figures from 0 to 1 in their order, each with its interval: entries are [label, { value, interval }].
export function scores(name, entries, show) {
  const there = entries.filter(([, figure]) => figure && figure.value !== null);
  const width = WIDTH / Math.max(there.length, 1);
  const y = (value) => HEIGHT - value * HEIGHT;
  const marks = there.map(([label, { value, interval }], index) => {
    const x = (index + 0.5) * width;
    const between = interval ? ` [${show(interval[0])}, ${show(interval[1])}]` : "";
    return make("g", {}, make("title", {}, `${label}: ${show(value)}${between}`),
      interval ? make("rect", { class: "interval-mark", x: x - width / 4, width: width / 2, y: y(interval[1]), height: y(interval[0]) - y(interval[1]) }) : null,
      make("rect", { class: "bar-mark good", x: x - width / 4, width: width / 2, y: y(value) - 1.5, height: 3 }));
  });
  return chart(name, marks, there.length
    ? there.map(([label, { value }]) => `${label} ${show(value)}`).join(", ") : "nothing yet");
}
