// The runs: a table that sorts, filters, groups and keeps up, and from which runs are compared.

import { comparison } from "./compare_page.js";
import { fill, make, scrolled } from "./elements.js";
import { amount, dollars, measured, number, origin } from "./figures.js";
import { follow } from "./following.js";
import { address, ask } from "./server.js";
import { trainingsTable } from "./trainings.js";

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

// What runs can be grouped by: pairs [name of the group, the run as it stands there].
const GROUPS = {
  policy: (run) => run.policies.length
    ? run.policies.map((it) => [it.policy, {
      ...run, policies: [it], side: run.policies.length > 1 ? `${run.run}@${it.policy}` : run.run,
    }]) : [["(none)", run]],
  environments: (run) => [[run.environments.join(", ") || "(none)", run]],
  suite: (run) => [[run.suite || "(none)", run]],
  folder: (run) => [[run.run.split("/").slice(0, -1).join("/") || "(the given folder)", run]],
};

export async function showRuns({ page, parameters, go, tell, signal }) {
  const sort = parameters.sort ?? "-begun";
  const group = parameters.group in GROUPS ? parameters.group : "";
  const chosen = new Set(); // names of runs, the first one first
  const to = (changed) => address("/", { filter: filter.value, sort: parameters.sort, group, ...changed });
  const filter = make("input", {
    type: "search", id: "filter", value: parameters.filter ?? "",
    oninput: () => { history.replaceState(null, "", to({})); draw(); },
  });
  const grouping = make("select", { id: "group", onchange: (event) => go(to({ group: event.target.value })) },
    make("option", { value: "" }, "nothing"),
    Object.keys(GROUPS).map((name) => make("option", { value: name, selected: name === group }, name)));
  const compare = make("button", { onclick: () => go(comparison([...chosen][0], [...chosen].slice(1))) }, "Compare");
  const table = make("table", { class: "runs" });
  const trainings = make("div");
  const count = make("p", { class: "quiet", role: "status" });
  fill(page,
    make("h1", {}, "Runs"),
    make("div", { class: "bar" },
      make("span", { class: "field" }, make("label", { for: "filter" }, "Filter "), filter),
      make("span", { class: "field" }, make("label", { for: "group" }, "Group by "), grouping),
      compare, count),
    scrolled("Runs", table), trainings);
  let runs = [];
  let known = "";

  function choose(run, is) {
    if (is) chosen.add(run);
    else chosen.delete(run);
    compare.disabled = chosen.size < 2;
    compare.title = chosen.size < 2 ? "choose two runs or more; the first chosen is what others are compared with" : [...chosen].join(", ");
  }

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = runs.filter((run) => {
      const text = [run.run, run.state, origin(run), ...run.policies.map((it) => it.policy), ...run.environments].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const focused = document.activeElement?.id;
    fill(table, make("caption", { class: "unseen" }, "Runs"),
      make("thead", {}, headings(sort, (by) => go(to({ sort: by })))),
      grouped(shown, group).map(([name, members]) => make("tbody", {},
        name === null ? null : groupRow(name, members), sorted(members, sort).map((run) => rows(run, chosen, choose)))));
    if (focused) document.getElementById(focused)?.focus();
    fill(count, `${shown.length} of ${runs.length} runs`);
    if (!runs.length) fill(count, "there are no runs in the folders that this viewer was given");
  }

  async function look() {
    const data = await ask("runs", {}, { signal });
    runs = data.runs.map((run) => ({ ...WAITING, ...run }));
    const now = JSON.stringify(data);
    if (now !== known) {
      draw();
      fill(trainings, trainingsTable(data.trainings));
    }
    known = now;
    return runs.some((run) => run.state === "waiting");
  }

  choose(null, false);
  while (await look() && !signal.aborted);
  follow(look, { signal, tell });
}

// Returns pairs [name, runs]; the name is null where nothing is grouped.
function grouped(runs, group) {
  if (!group) return [[null, runs]];
  const groups = new Map();
  for (const [name, run] of runs.flatMap(GROUPS[group])) groups.set(name, [...groups.get(name) ?? [], run]);
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function groupRow(name, members) {
  const sum = (figure) => members.reduce((total, run) => total + run.policies.reduce((of, it) => of + figure(it), 0), 0);
  const priced = members.every((run) => run.policies.every((it) => it.cost_usd !== null));
  return make("tr", { class: "group" },
    make("th", { scope: "rowgroup", colspan: COLUMNS.length - 4 }, make("bdi", {}, name), make("span", { class: "quiet" }, members.length === 1 ? " 1 run" : ` ${number(members.length)} runs`)),
    make("td", { class: "figure" }, number(sum((it) => it.finished))), make("td"),
    make("td", { class: "figure" }, amount(sum((it) => it.tokens))),
    make("td", { class: "figure" }, priced ? dollars(sum((it) => it.cost_usd)) : "–"));
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
function rows(run, chosen, choose) {
  const outcomes = run.policies.length ? run.policies : [null];
  return outcomes.map((outcome, index) => make("tr", { class: index ? "further" : null },
    index ? null : facts(run, outcomes.length, chosen, choose), outcome ? figures(outcome) : make("td", { colspan: 5 })));
}

function facts(run, rowspan, chosen, choose) {
  const side = run.side ?? run.run;
  const box = make("input", {
    type: "checkbox", id: `choose ${side}`, "aria-label": `Compare ${side}`,
    onchange: (event) => choose(side, event.target.checked),
  });
  box.checked = chosen.has(side);
  return [
    make("th", { scope: "row", rowspan }, run.state === "unreadable" ? make("bdi", {}, run.run)
      : [box, " ", make("a", { href: address("/run", { run: run.run }) }, make("bdi", {}, run.run))],
      origin(run) ? make("div", { class: "quiet small" }, make("bdi", {}, origin(run))) : null),
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
