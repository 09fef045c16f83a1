// The runs: a table that sorts, filters and keeps up.

import { fill, make } from "./elements.js";
import { amount, dollars, measured, number } from "./figures.js";
import { follow } from "./following.js";
import { address, ask } from "./server.js";

const COLUMNS = [
  { name: "run", of: (it) => it.run },
  { name: "state", of: (it) => it.state },
  { name: "environments", of: (it) => it.environments.join(", ") },
  { name: "begun", of: (it) => it.created },
  { name: "policy", of: (it) => it.policies[0]?.policy },
  { name: "episodes", of: (it) => it.finished, figure: true },
  { name: "success %", of: (it) => Math.max(...it.policies.map((of) => middle(of.success) ?? -1)), figure: true },
  { name: "tokens", of: (it) => it.tokens, figure: true },
  { name: "cost", of: (it) => it.cost_usd, figure: true },
];
const WAITING = { environments: [], policies: [], problem: "", created: "" };

export async function showRuns({ page, parameters, go, tell, signal }) {
  const sort = parameters.sort ?? "-begun";
  const filter = make("input", {
    type: "search", id: "filter", value: parameters.filter ?? "",
    oninput: () => { rewrite(); draw(); },
  });
  const head = make("thead", {}, headings(sort, (chosen) => go(address("/", { filter: filter.value, sort: chosen }))));
  const body = make("tbody");
  const count = make("p", { class: "quiet", role: "status" });
  fill(page,
    make("div", { class: "bar" },
      make("label", { for: "filter" }, "Filter "), filter, count),
    make("div", { class: "wide" }, make("table", { class: "runs" }, make("caption", { class: "unseen" }, "Runs"), head, body)));
  let runs = [];

  function rewrite() {
    history.replaceState(null, "", address("/", { filter: filter.value, sort: parameters.sort }));
  }

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = runs.filter((run) => {
      const text = [run.run, run.state, ...run.policies.map((it) => it.policy), ...run.environments].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    fill(body, sorted(shown, sort).map(rows));
    fill(count, `${shown.length} of ${runs.length} runs`);
    if (!runs.length) fill(count, "there are no runs in the folders that this viewer was given");
  }

  async function look() {
    runs = (await ask("runs", {}, { signal })).runs.map((run) => ({ ...WAITING, ...run }));
    draw();
    return runs.some((run) => run.state === "waiting");
  }

  while (await look() && !signal.aborted);
  follow(look, { signal, tell });
}

function headings(sort, choose) {
  return make("tr", {}, COLUMNS.map(({ name, figure }) => {
    const current = sort.replace(/^-/, "") === name;
    const down = current && sort.startsWith("-");
    return make("th", {
      scope: "col", class: figure ? "figure" : null,
      "aria-sort": current ? (down ? "descending" : "ascending") : null,
    }, make("button", { class: "sort", onclick: () => choose(down || !current ? name : `-${name}`) }, name));
  }));
}

function sorted(runs, sort) {
  const column = COLUMNS.find(({ name }) => name === sort.replace(/^-/, "")) ?? COLUMNS[0];
  const direction = sort.startsWith("-") ? -1 : 1;
  const absent = (value) => value === null || value === undefined || value === "";
  return runs.toSorted((a, b) => {
    const [first, second] = [column.of(a), column.of(b)];
    // What is absent is last in both directions.
    if (absent(first) || absent(second)) return absent(first) - absent(second);
    return direction * (first < second ? -1 : first > second ? 1 : 0);
  });
}

function middle(success) {
  return success.bounds ? (success.bounds[0] + success.bounds[1]) / 2 : success.value;
}

// A row for each policy of a run; what is the run's own stands in the first.
function rows(run) {
  const outcomes = run.policies.length ? run.policies : [null];
  return outcomes.map((outcome, index) => make("tr", { class: index ? "further" : null },
    index ? null : facts(run, outcomes.length), outcome ? figures(outcome) : make("td", { colspan: 5 })));
}

function facts(run, rowspan) {
  const name = run.state === "unreadable" ? run.run : make("a", { href: address("/run", { run: run.run }) }, run.run);
  return [
    make("th", { scope: "rowgroup", rowspan }, name),
    make("td", { rowspan }, make("span", { class: `state ${run.state}` }, run.state),
      run.problem ? make("div", { class: "failed small" }, run.problem) : null),
    make("td", { rowspan }, run.environments.join(", ")),
    make("td", { rowspan, class: "small" }, run.created.replace("T", " ").slice(0, 19)),
  ];
}

function figures(outcome) {
  const { value, bounds, interval } = outcome.success;
  const [shown, between] = measured(value, bounds, interval);
  const planned = outcome.planned === null ? "?" : number(outcome.planned);
  return [
    make("td", {}, outcome.policy),
    make("td", { class: "figure" }, `${number(outcome.finished)} / ${planned}`,
      outcome.given_up ? make("div", { class: "failed small" }, `${number(outcome.given_up)} given up`) : null),
    make("td", { class: "figure" }, shown, make("div", { class: "quiet small" }, between)),
    make("td", { class: "figure" }, amount(outcome.tokens)),
    make("td", { class: "figure" }, dollars(outcome.cost_usd)),
  ];
}
