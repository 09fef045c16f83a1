// The episodes of a run: filters, and a list of which only what is seen exists.

import { fill, make, phrase } from "./elements.js";
import { amount, dollars, moment, number, seconds } from "./figures.js";
import { delay, follow } from "./following.js";
import { address, ask } from "./server.js";
import { VirtualList } from "./virtual_list.js";

export const FILTERS = [
  "environment", "policy", "category", "outcome", "reason", "item", "min_rounds", "max_rounds", "words",
  "sort",
];
const LABELS = {
  environment: "Environment", policy: "Policy", category: "Category", outcome: "Outcome", reason: "Reason",
  item: "Item", min_rounds: "Rounds from", max_rounds: "to", words: "Words",
};
const COLUMNS = [
  { name: "item", show: (it) => it.item_id },
  { name: "environment", show: (it) => it.environment },
  { name: "policy", show: (it) => it.policy },
  { name: "outcome", show: (it) => it.outcome },
  { name: "reason", show: (it) => it.ending },
  { name: "score", show: (it) => number(it.score), figure: true },
  { name: "reward", show: (it) => number(it.reward), figure: true },
  { name: "rounds", show: (it) => number(it.rounds), figure: true },
  { name: "tokens", show: (it) => amount(it.prompt_tokens + it.completion_tokens), figure: true },
  { name: "seconds", show: (it) => seconds((it.ended_unix_ms - it.started_unix_ms) / 1000), figure: true },
  { name: "cost", show: (it) => dollars(it.cost_usd), figure: true },
  { name: "sample", show: (it) => number(it.sample), figure: true },
  { name: "attempt", show: (it) => number(it.attempt), figure: true },
  { name: "ended", show: (it) => moment(it.ended_unix_ms) },
];

export function filtersOf(parameters) {
  return Object.fromEntries(FILTERS.filter((it) => parameters[it]).map((it) => [it, parameters[it]]));
}

export async function showEpisodes({ page, parameters, go, tell, signal }) {
  const { run } = parameters;
  const wanted = filtersOf(parameters);
  const choose = (name, value) => go(address("/episodes", { run, ...wanted, [name]: value }));
  const open = (it, extra = {}) => go(address("/episode", { run, id: it.episode_id, ...wanted, ...extra }));
  const count = make("p", { role: "status", class: "quiet", id: "count" });
  const form = make("form", { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() });
  const head = make("div", { class: "list-head", role: "row" }, headings(wanted.sort ?? "", (sort) => choose("sort", sort)));
  const list = new VirtualList({
    columns: COLUMNS.length,
    load: async (offset, limit) =>
      (await ask("episodes", { run, ...wanted, offset, limit }, { signal })).rows,
    row: (it) => COLUMNS.map((column) => cell(column, it, run, wanted)),
    open,
    failed: (error) => { if (!signal.aborted) tell(error.message); },
  });
  fill(page, make("h1", {}, phrase`Episodes of ${run}`), form, count,
    make("div", { class: "list", role: "table", "aria-label": "Episodes" }, head, list.element));
  let known = null;

  async function look() {
    const data = await ask("episodes", { run, ...wanted, offset: 0, limit: 100 }, { signal });
    if (data.reading) fill(form, make("p", { class: "quiet" }, "reading the run …"));
    else if (known === null || known.reading) fill(form, filterFields(wanted, data.choices, choose));
    if (known === null || known.revision !== data.revision || known.total !== data.total) {
      list.show(data.total, data.rows);
    }
    known = data;
    fill(count, `${number(data.total)} of ${number(data.all)} episodes`, notes(data));
    if (data.reading) return 200;
    return data.words !== null && data.words.indexed < data.words.of && !data.words.problem ? 700 : 0;
  }

  // Milliseconds until there is more to show.
  let pause = await look();
  if (!parameters.focus) list.element.focus({ preventScroll: true });
  while (pause && !signal.aborted) {
    await delay(pause, signal);
    pause = await look();
  }
  follow(look, { signal, tell });
}

function notes({ words, damage }) {
  const said = [];
  if (words?.problem) said.push(`; the words could not be indexed: ${words.problem}`);
  else if (words && words.indexed < words.of) {
    said.push(`; indexing what was said: ${number(words.indexed)} of ${number(words.of)} so far`);
  }
  if (damage.length) said.push(make("span", { class: "failed" }, `; ${damage.length} damaged: ${damage[0]}`));
  return said;
}

function filterFields(wanted, choices, choose) {
  const fields = [];
  for (const [name, label] of Object.entries(LABELS)) {
    const value = wanted[name] ?? "";
    const id = `filter-${name}`;
    const counts = choices[name];
    if (counts && Object.keys(counts).length < 2 && !value) continue;
    const field = counts
      ? make("select", { id, onchange: (event) => choose(name, event.target.value) },
        make("option", { value: "" }, "all"),
        Object.entries(counts).map(([it, number_]) =>
          make("option", { value: it, selected: it === value }, `${it || "(none)"} (${number(number_)})`)))
      : make("input", {
        id, value, size: name.endsWith("rounds") ? 4 : 16,
        type: "search", inputmode: name.endsWith("rounds") ? "numeric" : null,
        onchange: (event) => choose(name, event.target.value.trim()),
      });
    fields.push(make("span", { class: "field" }, make("label", { for: id }, label), " ", field));
  }
  return fields;
}

function headings(sort, choose) {
  return COLUMNS.map(({ name, figure }) => {
    const current = sort.replace(/^-/, "") === name;
    const down = sort.startsWith("-");
    return make("div", {
      role: "columnheader", class: `cell ${name}${figure ? " figure" : ""}`,
      "aria-sort": current ? (down ? "descending" : "ascending") : null,
    }, make("button", {
      type: "button", class: "sort", onclick: () => choose(current ? (down ? "" : `-${name}`) : name),
    }, name));
  });
}

function cell({ name, show, figure }, it, run, wanted) {
  const text = show(it);
  const inner = name === "item"
    ? make("a", { href: address("/episode", { run, id: it.episode_id, ...wanted }), tabindex: "-1" }, text) : text;
  const tone = name === "outcome" ? ` state ${it.outcome}` : "";
  return make("div", { role: "cell", class: `cell ${name}${figure ? " figure" : ""}${tone}`, title: text }, inner);
}
