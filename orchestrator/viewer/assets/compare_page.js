// Runs side by side, paired by what both played: figures, tests, items that turned.

import { sideBySide } from "./branch_links.js";
import { fill, make, phrase, scrolled } from "./elements.js";
import { delay } from "./following.js";
import { measured, number } from "./figures.js";
import { address, ask } from "./server.js";

const METRICS = { "success rate": "success", "mean score": "score" };

// Returns the address of a comparison of each of `others` with `run`: RUN or RUN@POLICY.
export function comparison(run, others) {
  const query = new URLSearchParams({ run });
  for (const other of others) query.append("other", other);
  return `/compare?${query}`;
}

export async function showComparison({ page, parameters, tell, signal }) {
  const { run = "" } = parameters;
  const others = new URLSearchParams(location.search).getAll("other");
  if (!others.length) throw new Error("a comparison needs two runs: choose them in the list of runs");
  const sections = others.map((other) => make("section", { "aria-label": `${run} and ${other}` },
    make("h2", {}, phrase`${run} → ${other}`), make("p", { class: "quiet", role: "status" }, "comparing …")));
  fill(page, make("h1", {}, "Comparison"),
    make("p", { class: "quiet" }, phrase`Everything is over the same episodes: what both were to play. Differences are second minus first; the first is ${run}. `,
      "A policy is named as RUN@POLICY in the address."), sections);
  for (const [index, other] of others.entries()) {
    try {
      await showPair(sections[index], { run, other, signal });
    } catch (error) {
      if (signal.aborted) return;
      fill(sections[index], make("h2", {}, phrase`${run} → ${other}`), make("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  tell("");
}

async function showPair(section, { run, other, signal }) {
  let data = await ask("compare", { run, other }, { signal });
  while (data.computing && !signal.aborted) {
    await delay(700, signal);
    data = await ask("compare", { run, other }, { signal });
  }
  fill(section, data.comparisons.map((it) => contents(data, it)));
}

function contents({ run, other }, data) {
  const [first, second] = [data.first, data.second];
  return [
    make("h2", {}, phrase`${run} → ${other}`),
    make("dl", { class: "figures" }, [["first", run, first], ["second", other, second]].map(([name, of, side]) => make("div", {},
      make("dt", {}, name), make("dd", {}, make("a", { href: address("/run", { run: of }) }, of),
        phrase` ${side.policy}: ${number(side.finished)} of ${number(side.planned)} episodes finished`)))),
    warnings(data),
    figures(data.figures),
    turned("Won by the second", data.turned.won, { run, other }),
    turned("Lost by the second", data.turned.lost, { run, other }),
  ];
}

function warnings(data) {
  const settings = data.settings_that_differ;
  const lines = data.warnings.filter((line) => !settings.length || !/^(SETTINGS DIFFER|  )/.test(line));
  return [
    settings.length ? make("p", { class: "failed", role: "note" },
      phrase`Settings differ, which may be why the figures do: ${settings.map((it) => it.setting).join(", ")}`) : null,
    lines.map((line) => make("p", { class: "failed small", role: "note" }, line)),
    settings.length ? make("details", {}, make("summary", {}, "Settings that differ"),
      scrolled("Settings that differ", make("table", { class: "settings" },
        make("thead", {}, make("tr", {}, ["setting", "first", "second"].map((it) => make("th", { scope: "col" }, it)))),
        make("tbody", {}, settings.map((it) => make("tr", {}, make("th", { scope: "row" }, it.setting),
          [it.first, it.second].map((value) => make("td", {}, make("code", {}, value))))))))) : null,
  ];
}

function figures(rows) {
  const headings = ["pairs", "first %", "second %", "difference", "won", "lost", "p"];
  return [
    scrolled("Figures", make("table", {},
      make("caption", { class: "unseen" }, "Figures"),
      make("thead", {}, make("tr", {}, ["environment", "metric"].map((it) => make("th", { scope: "col" }, it)),
        headings.map((it) => make("th", { scope: "col", class: "figure" }, it)))),
      make("tbody", {}, rows.map((row) => make("tr", {},
        make("th", { scope: "row" }, row.environment || "all"),
        make("td", {}, METRICS[row.metric]),
        make("td", { class: "figure" }, number(row.pairs), row.complete < row.pairs
          ? make("div", { class: "failed small" }, `${number(row.pairs - row.complete)} not whole`) : null),
        cell(row.first), cell(row.second), cell(row.difference, signed),
        make("td", { class: "figure" }, number(row.won)), make("td", { class: "figure" }, number(row.lost)),
        make("td", { class: "figure" }, row.p_value === null ? "–" : Number(row.p_value.toPrecision(2)))))))),
    make("p", { class: "quiet small" }, "95 % intervals in brackets, that of the difference a paired bootstrap over items; "
      + "p: McNemar's exact test over items; won, lost: items at which the second did better, worse; "
      + "low..high: everything missing for the first .. for the second, and intervals hold both"),
  ];
}

function cell(figure, show) {
  const [shown, between] = measured(figure.value, figure.bounds, figure.interval, show);
  return make("td", { class: "figure" }, shown, make("div", { class: "quiet small" }, between));
}

function signed(value) {
  if (value === null) return "–";
  return `${value > 0 ? "+" : ""}${(100 * value).toFixed(1)}`;
}

function turned(title, { count, items }, { run, other }) {
  if (!count) return null;
  return make("details", { open: count <= 20 }, make("summary", {}, `${title}: ${number(count)} items`),
    items.length < count ? make("p", { class: "quiet" }, `the first ${number(items.length)}; orchestrator.compare --items 0 lists all`) : null,
    scrolled(title, make("table", {},
      make("thead", {}, make("tr", {}, ["item", "environment", "first solved", "second solved", "episodes"].map((it) => make("th", { scope: "col" }, it)))),
      make("tbody", {}, items.map((it) => make("tr", {},
        make("th", { scope: "row" }, it.item_id), make("td", {}, it.environment),
        make("td", {}, `${it.first_solved} of ${it.samples}`), make("td", {}, `${it.second_solved} of ${it.samples}`),
        make("td", {}, make("a", { href: address("/episode", { run, id: it.first_episode }) }, "first"), ", ",
          make("a", { href: address("/episode", { run: other, id: it.second_episode }) }, "second"), ", ",
          make("a", { href: sideBySide({ run, id: it.first_episode }, { run: other, id: it.second_episode }) }, "side by side"))))))));
}
