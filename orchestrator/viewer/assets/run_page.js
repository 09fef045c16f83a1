// One run: its table, distributions, failures, configuration.

import { histogram, line } from "./charts.js";
import { comparison } from "./compare_page.js";
import { fill, make, phrase, scrolled } from "./elements.js";
import { saving } from "./exports.js";
import { amount, dollars, measured, number, origin, percent, seconds } from "./figures.js";
import { delay, follow } from "./following.js";
import { playingNow } from "./live_page.js";
import { address, ask } from "./server.js";

const MOST_BESIDE = 50;

export async function showRun({ page, parameters, go, tell, signal }) {
  const { run, other } = parameters;
  const choose = (event) => go(address("/run", { run, other: event.target.value }));
  let known = null;
  const playing = playingNow(run, { isLive: () => known?.state_name === "live", signal });

  async function look() {
    const data = await ask("run", { run, revision: known?.revision }, { signal });
    if (!("manifest" in data)) return;
    // What is open stays open.
    const opened = new Set([...page.querySelectorAll("details[open]")].map((it) => it.id));
    known = data;
    const found = other ? (await ask("differences", { run, other }, { signal })).differences : null;
    fill(page, contents(run, data, playing.line), configuration(data, { run, other, choose }, found));
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  }

  await look();
  // Of a large run there is more to show soon.
  while (known.stage !== "whole" && !signal.aborted) {
    await delay(300, signal);
    await look();
  }
  playing.keepUp();
  follow(look, { signal, tell });
}

function contents(run, data, playing) {
  return [heading(run, data), { reading, counting, whole }[data.stage](run, data, playing)];
}

function heading(run, { manifest, folder, ...data }) {
  const from = origin(data);
  return [
    make("h1", {}, run),
    from ? make("p", {}, make("bdi", {}, from)) : null,
    make("p", { class: "quiet" }, phrase`${manifest.run_id}: policy ${manifest.policy}, seed ${manifest.run_seed}, begun ${manifest.created}, `,
      phrase`started ${manifest.sessions.length} times, in ${folder}`),
  ];
}

// Where the run lies: in a training, and beside others that are compared with it at a click.
function beside(run, { runs, training }) {
  const folder = run.split("/").slice(0, -1).join("/");
  const others = runs.filter((it) => it !== run && it.split("/").slice(0, -1).join("/") === folder);
  return [
    training ? make("p", {}, "Played by the training ", make("a", { href: address("/training", { training }) }, make("bdi", {}, training))) : null,
    folder && others.length ? make("details", { id: "beside" }, make("summary", {}, `Runs in the same folder: ${number(others.length)}`),
      make("ul", {}, others.slice(0, MOST_BESIDE).map((it) => make("li", {}, make("a", { href: address("/run", { run: it }) }, make("bdi", {}, it)),
        ", ", make("a", { href: comparison(run, [it]), "aria-label": `compare ${it} with this run` }, "compare"))))) : null,
  ];
}

function reading() {
  return make("p", { role: "status" }, "reading the run …");
}

function counting(run, data) {
  return [
    make("p", { role: "status" }, make("span", { class: `state ${data.state_name}` }, data.state_name), " intervals are being computed … ",
      make("a", { href: address("/episodes", { run }) }, "All episodes")),
    table(run, "Results", data.results, ["environment", "policy"]),
  ];
}

function whole(run, data, playing) {
  const { report } = data;
  return [
    make("p", {}, make("span", { class: `state ${data.state_name}` }, data.state_name), data.state ? phrase` ${data.state}` : "",
      ` ${number(report.finished)} of ${report.planned === null ? "?" : number(report.planned)} episodes finished, `,
      `${number(report.given_up)} given up, ${number(report.retried_attempts)} failed attempts played again. `,
      make("a", { href: address("/episodes", { run }) }, "All episodes"), ". ",
      make("a", { href: address("/play", { run }) }, "Play a task")),
    make("p", { class: "bar" }, saving({ run }, data.formats)),
    beside(run, data),
    playing,
    report.damage.map((problem) => make("p", { class: "failed" }, phrase`Damaged: ${problem}`)),
    Object.entries(report.gaps).map(([name, why]) => make("p", { class: "failed" }, phrase`Not played as the suite has it: ${name}: ${why}`)),
    table(run, "Results", report.results, ["environment", "policy"]),
    categories(run, data.categories),
    failures(run, report.failures),
    make("h2", {}, "Distributions of finished episodes"),
    make("div", { class: "charts" }, distributions(data.distributions)),
    make("h2", {}, "Over time"),
    make("div", { class: "charts" }, curves(data.over_time)),
  ];
}

function table(run, title, rows, names) {
  const figures = ["planned", "judged", "given up", "success %", "score", "rounds", "tokens", "cost"];
  return [
    make("h2", {}, title),
    scrolled(title, make("table", {},
      make("thead", {}, make("tr", {}, names.map((it) => make("th", { scope: "col" }, it)),
        figures.map((it) => make("th", { scope: "col", class: "figure" }, it)))),
      make("tbody", {}, rows.map((row) => resultRow(run, row, names))))),
    make("p", { class: "quiet small" }, "95 % intervals in brackets, clustered by item; low..high: all missing episodes failed .. all succeeded"),
  ];
}

function resultRow(run, row, names) {
  const filters = Object.fromEntries(names.map((name) => [name, row[name]]));
  const success = measured(row.success_rate, row.success_bounds, row.success_interval);
  const score = measured(row.mean_score, row.score_bounds, row.score_interval, number);
  return make("tr", {},
    names.map((name, index) => index === 0
      ? make("th", { scope: "row" }, make("a", { href: address("/episodes", { run, ...filters }) }, row[name]))
      : make("td", {}, row[name] || "(none)")),
    make("td", { class: "figure" }, row.planned === null ? "?" : number(row.planned)),
    make("td", { class: "figure" }, number(row.judged || row.finished)),
    make("td", { class: `figure ${row.given_up ? "failed" : ""}` }, number(row.given_up)),
    [success, score].map(([value, interval]) =>
      make("td", { class: "figure" }, value, make("div", { class: "quiet small" }, interval))),
    make("td", { class: "figure" }, number(row.mean_rounds, 1)),
    make("td", { class: "figure" }, amount(row.prompt_tokens + row.completion_tokens)),
    make("td", { class: "figure" }, dollars(row.cost_usd)));
}

function categories(run, rows) {
  if (new Set(rows.map((row) => `${row.environment} ${row.category}`)).size < 2) return null;
  return make("details", { id: "categories" }, make("summary", {}, "By category"),
    table(run, "Categories", rows, ["environment", "category", "policy"]));
}

function failures(run, reasons) {
  if (!reasons.length) return null;
  return [
    make("h2", {}, "Why attempts failed"),
    scrolled("Why attempts failed", make("table", {},
      make("thead", {}, make("tr", {}, ["reason", "fault", "attempts", "given up", "the first said"].map((it) =>
        make("th", { scope: "col" }, it)))),
      make("tbody", {}, reasons.map((it) => make("tr", {},
        make("th", { scope: "row" }, make("a", { href: address("/episodes", { run, outcome: "failed", reason: it.reason }) }, it.reason)),
        make("td", {}, it.fault), make("td", { class: "figure" }, number(it.attempts)),
        make("td", { class: "figure" }, number(it.given_up)),
        make("td", { class: "small" }, make("a", { href: address("/episode", { run, id: it.episode_id }) },
          it.message.slice(0, 300) || "(no message)"))))))),
  ];
}

function distributions(found) {
  const shows = { seconds, tokens: amount };
  return Object.entries(found).map(([name, it]) => histogram(name, it, shows[name] ?? ((value) => number(value, 2))));
}

function curves(found) {
  const at = found.seconds;
  return [
    line("success % of all judged so far", at, found.success, percent, { most: 1 }),
    line("steps per second", at, found.steps, (it) => number(it, 1)),
    line("tokens per second", at, found.tokens, amount),
    line("live episodes", at, found.live, (it) => number(it, 0)),
  ];
}

function configuration({ manifest, runs }, { run, other, choose }, differences) {
  const others = runs.filter((it) => it !== run);
  return make("details", { id: "configuration", open: Boolean(other) }, make("summary", {}, "Configuration"),
    others.length ? make("p", { class: "bar" }, make("label", { for: "other" }, "Compare with"),
      make("select", { id: "other", onchange: choose }, make("option", { value: "" }, "no other run"),
        others.map((it) => make("option", { value: it, selected: it === other }, it))),
      other ? make("a", { href: comparison(run, [other]) }, "Figures, tests, items that turned") : null) : null,
    differences ? settings(`What decides the episodes differs in ${differences.length} settings`, [run, other],
      differences.map((it) => [it.field, it.new, it.old])) : null,
    settings("All settings", [run], flat(manifest)));
}

function settings(title, runs, rows) {
  return scrolled(title, make("table", { class: "settings" },
    make("caption", {}, title),
    make("thead", {}, make("tr", {}, ["setting", ...runs].map((it) => make("th", { scope: "col" }, it)))),
    make("tbody", {}, rows.map(([path, ...values]) =>
      make("tr", {}, make("th", { scope: "row" }, path), values.map((it) => make("td", {}, make("code", {}, it))))))));
}

// Settings by their dotted path.
function flat(value, path = "") {
  if (value !== null && typeof value === "object" && Object.keys(value).length) {
    return Object.entries(value).flatMap(([name, it]) => flat(it, path ? `${path}.${name}` : name));
  }
  return [[path, JSON.stringify(value)]];
}
