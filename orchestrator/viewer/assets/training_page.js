// One training: agents with their scores and what they learned from, curves, the runs that it played.

import { fill, make, phrase, scrolled } from "./elements.js";
import { amount, measured, number, percent, seconds } from "./figures.js";
import { follow } from "./following.js";
import { address, ask } from "./server.js";
import { scores, trend } from "./training_charts.js";
import { figuresText } from "./trainings.js";

const NAMES = {
  off_policy_tokens: "stale tokens left out", ratio_dev: "|ratio - 1|", clip_frac: "share of clipped tokens",
  kl: "KL to the reference, nats", entropy: "entropy, nats per token", lr: "learning rate",
  informative_groups: "groups that differ", grad_norm: "gradient norm", held_out_loss: "held-out loss",
};
// These first; others follow in the order of the log.
const FIRST = ["reward", "loss", "held_out_loss", "kl", "entropy", "off_policy_tokens", "ratio_dev", "clip_frac", "informative_groups"];

export async function showTraining({ page, parameters, tell, signal }) {
  const { training } = parameters;
  let known = null;

  async function look() {
    const data = await ask("training", { training, revision: known?.revision }, { signal });
    if (!("state" in data)) return;
    const opened = new Set([...page.querySelectorAll("details[open]")].map((it) => it.id));
    known = data;
    fill(page, contents(training, data));
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  }

  await look();
  follow(look, { signal, tell });
}

function contents(training, data) {
  const environments = [...new Set(data.agents.flatMap((it) => Object.keys(it.scores)))];
  return [
    make("h1", {}, make("bdi", {}, training)),
    make("p", {}, make("span", { class: `state ${data.state}` }, data.state), ` ${data.algorithm}, ${data.progress}, `,
      make("span", { class: "quiet" }, phrase`in ${data.folder}`)),
    data.part_of ? make("p", {}, "Part of ", make("a", { href: address("/training", { training: data.part_of }) }, make("bdi", {}, data.part_of))) : null,
    make("p", {}, figuresText(data.figures)),
    data.pooled.length ? evolution(data.pooled, environments) : null,
    data.agents.length ? agents(data.agents, environments) : null,
    Object.keys(data.curves).length ? [make("h2", {}, "Curves"), make("div", { class: "charts" }, curves(data.curves))] : null,
    data.rows.length ? lastRows(data.rows) : null,
    runs(data.runs),
    stages(data.stages),
    settings("report", "Report", data.report),
    settings("recipe", "Recipe", data.recipe),
  ];
}

function evolution(pooled, environments) {
  const seeds = Math.max(...pooled.map((it) => it.seeds));
  return [
    make("h2", {}, "Scores from iteration to iteration, in percent"),
    make("div", { class: "charts" }, environments.map((name) =>
      scores(name, pooled.map((it) => [it.agent, it.scores[name]]), percent))),
    make("p", { class: "quiet small" }, `95 % intervals clustered by item${seeds > 1 ? `, ${seeds} seeds together` : ""}`),
    make("h2", {}, "Kept episodes"),
    scrolled("Kept episodes", make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "iteration"),
        environments.map((it) => make("th", { scope: "col", class: "figure" }, it)))),
      make("tbody", {}, pooled.filter((it) => Object.keys(it.kept).length).map((it) => make("tr", {},
        make("th", { scope: "row" }, it.agent), environments.map((name) => keptCell(it.kept[name]))))))),
    make("p", { class: "quiet small" }, "kept of played; in brackets how many the reward confirmed before repeats of an item were left out"),
  ];
}

function keptCell(kept) {
  return make("td", { class: "figure" }, kept
    ? `${number(kept.kept)} of ${number(kept.episodes)} (${number(kept.confirmed)})` : "–");
}

function agents(rows, environments) {
  const validated = rows.some((it) => Object.keys(it.validation ?? {}).length);
  const evolved = rows.some((it) => it.learned || Object.keys(it.explored ?? {}).length);
  return [
    make("h2", {}, "Agents"),
    scrolled("Agents", make("table", {},
      make("thead", {}, make("tr", {}, (evolved ? ["agent", "seed", "explored", "learned from", "loss"] : ["agent"]).map((it) =>
        make("th", { scope: "col", class: it === "loss" ? "figure" : null }, it)),
        environments.map((it) => make("th", { scope: "col", class: "figure" }, phrase`${it} %`)),
        validated ? environments.map((it) => make("th", { scope: "col", class: "figure" }, phrase`${it} %, to choose by`)) : null)),
      make("tbody", {}, rows.map((it) => make("tr", {},
        make("th", { scope: "row" }, it.training ? make("a", { href: address("/training", { training: it.training }) }, it.agent) : it.agent),
        evolved ? origin(it) : null,
        environments.map((name) => scoreCell(it.scores[name])),
        validated ? environments.map((name) => scoreCell(it.validation?.[name])) : null))))),
    make("p", { class: "quiet small" }, "a score leads to the run that it was measured on; explored: the runs that the iteration learned from"),
  ];
}

function origin(it) {
  return [
    make("td", {}, it.seed === null ? "–" : number(it.seed)),
    make("td", {}, Object.entries(it.explored ?? {}).map(([name, run]) => make("div", {}, runLink(run, name)))),
    make("td", {}, it.learned ? `${number(it.learned.sequences)} episodes, ${amount(it.learned.tokens)} tokens` : "–"),
    make("td", { class: "figure" }, number(it.learned?.loss)),
  ];
}

function scoreCell(figure) {
  if (!figure) return make("td", { class: "figure" }, "–");
  const [shown, between] = measured(figure.value, null, figure.interval);
  const text = figure.value === null ? "playing" : shown;
  return make("td", { class: "figure" }, figure.run ? runLink(figure.run, text) : text, make("div", { class: "quiet small" }, between));
}

function runLink(run, text) {
  return make("a", { href: address("/run", { run }) }, make("bdi", {}, text));
}

function curves(found) {
  const names = [...FIRST.filter((it) => it in found), ...Object.keys(found).filter((it) => !FIRST.includes(it))];
  return names.map((name) => trend(NAMES[name] ?? name.replaceAll("_", " "), found[name], (it) =>
    Math.abs(it) >= 10_000 ? amount(it) : Number(it.toPrecision(4))));
}

function lastRows(rows) {
  const names = [...new Set(rows.flatMap((it) => Object.keys(it)))].filter((it) => it !== "run");
  const linked = rows.some((it) => it.run);
  return make("details", { id: "rows", open: linked }, make("summary", {}, `The last ${rows.length} rows of the log`),
    scrolled("Log", make("table", {},
      make("thead", {}, make("tr", {}, names.map((it) => make("th", { scope: "col", class: "figure" }, it.replaceAll("_", " "))),
        linked ? make("th", { scope: "col" }, "episodes") : null)),
      make("tbody", {}, rows.map((row) => make("tr", {}, names.map((name) => make("td", { class: "figure" }, shown(row[name]))),
        linked ? make("td", {}, row.run ? runLink(row.run, "run") : "–") : null))))));
}

function shown(value) {
  if (typeof value === "number") return Number.isInteger(value) ? number(value) : Number(value.toPrecision(4));
  return value === undefined || value === null ? "–" : JSON.stringify(value);
}

function runs(names) {
  if (!names.length) return null;
  return make("details", { id: "runs" }, make("summary", {}, `Runs that it played: ${number(names.length)}`),
    make("ul", {}, names.map((run) => make("li", {}, runLink(run, run)))));
}

function stages(found) {
  if (!found.length) return null;
  return make("details", { id: "stages" }, make("summary", {}, `Finished stages: ${found.length}`),
    scrolled("Stages", make("table", {},
      make("tbody", {}, found.map(([name, took]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "figure" }, seconds(took))))))));
}

function settings(id, title, value) {
  if (!value) return null;
  return make("details", { id }, make("summary", {}, title), make("pre", { class: "text", tabindex: 0, "aria-label": title, role: "region" }, JSON.stringify(value, null, 1)));
}
