// The trainings, as the list of runs shows them.

import { make, scrolled } from "./elements.js";
import { number } from "./figures.js";
import { address } from "./server.js";

export function trainingsTable(trainings) {
  if (!trainings.length) return null;
  return scrolled("Trainings", make("table", { class: "trainings" },
    make("caption", {}, "Trainings"),
    make("thead", {}, make("tr", {}, ["training", "algorithm", "state", "progress", "newest figures"].map((it) => make("th", { scope: "col" }, it)),
      make("th", { scope: "col", class: "figure" }, "runs"))),
    make("tbody", {}, trainings.map((it) => make("tr", {},
      make("th", { scope: "row" }, it.problem ? make("bdi", {}, it.training)
        : make("a", { href: address("/training", { training: it.training }) }, make("bdi", {}, it.training))),
      make("td", {}, it.algorithm),
      make("td", {}, make("span", { class: `state ${it.state}` }, it.state), it.problem ? make("div", { class: "failed small", role: "note" }, it.problem) : null),
      make("td", {}, it.progress), make("td", {}, figuresText(it.figures)),
      make("td", { class: "figure" }, number(it.runs)))))));
}

export function figuresText(figures) {
  return Object.entries(figures).map(([name, value]) => `${name} ${number(value)}`).join(", ") || "–";
}
