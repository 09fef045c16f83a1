// The token ledger of an episode: which tokens were sampled, how likely they were, by which weights.

import { fill, make, phrase, scrolled } from "./elements.js";
import { number } from "./figures.js";
import { ask } from "./server.js";

// What tokens are coloured by: nats at which the shade changes, and the value of a token.
const SCALES = {
  logprob: { limits: [0.01, 0.1, 0.5, 1, 2, 4], of: (ledger, at) => -ledger.logprobs[at], legend: "−logprob" },
  entropy: { limits: [0.01, 0.1, 0.3, 0.7, 1.5, 3], of: (ledger, at) => ledger.entropies[at], legend: "entropy" },
};
const COLUMNS = ["place", "id", "text", "origin", "call", "logprob", "entropy", "version"];
const MOST_ROWS = 2000;

export async function showTokens(section, { run, id, segments, signal }) {
  const body = make("div", { class: "ledger" });
  const legend = make("p", { class: "quiet small", id: "token-legend" });
  const colour = make("select", { id: "token-colour", onchange: () => draw() });
  const form = make("select", { id: "token-form", onchange: () => draw() });
  const choice = make("select", { id: "token-segment", onchange: () => load(Number(choice.value)) },
    segments.map((it, index) => make("option", { value: index }, `${index + 1}: ${number(it.tokens)} tokens`)));
  fill(section, make("h2", {}, "Tokens"),
    make("div", { class: "bar" },
      field("token-form", "Show", form), field("token-colour", "Colour", colour),
      segments.length > 1 ? field("token-segment", "Segment", choice) : null,
      make("span", { class: "token context" }, "context"), make("span", { class: "token sampled s1" }, "sampled"),
      make("span", { class: "token forced" }, "forced")),
    legend, body);
  let ledger = null;

  async function load(segment) {
    ledger = await ask("tokens", { run, id, segment }, { signal });
    offer(form, [ledger.texts ? "text" : null, "ids", "table"]);
    offer(colour, ["logprob", ledger.entropies.length ? "entropy" : null, "version"]);
    draw();
  }

  function draw() {
    fill(legend, explained(ledger, colour.value));
    fill(body,
      ledger.problem ? make("p", { class: "hint", role: "note" }, ledger.problem) : null,
      ledger.fork_reason ? make("p", { class: "failed", role: "note" },
        phrase`A new segment: ${ledger.fork_reason}. Its first ${number(ledger.kept)} tokens are those of the segment before; what follows was rewritten.`) : null,
      make("p", { class: "quiet small" }, counts(ledger)),
      form.value === "table" ? table(ledger)
        : groups(ledger).map(([from, to]) => group(ledger, from, to, colour.value, form.value)));
  }

  await load(0);
}

function field(id, label, element) {
  return make("span", { class: "field" }, make("label", { for: id }, label), element);
}

// Keeps the choice where it is still there.
function offer(select, names) {
  const chosen = select.value;
  const shown = names.filter(Boolean);
  fill(select, shown.map((name) => make("option", { value: name, selected: name === chosen },
    name === "version" ? "policy version" : name)));
}

function explained(ledger, colour) {
  const absent = ledger.entropies.length ? "" : "; the policy's engine told no entropies";
  if (!(colour in SCALES)) return `a colour for each version${absent}`;
  const { limits, legend } = SCALES[colour];
  const marks = [...limits, null].map((limit, index) => make("span", { class: `token sampled s${index}` },
    limit === null ? `≥ ${limits.at(-1)}` : `< ${limit}`));
  return [`${legend} in nats: `, marks.flatMap((it) => [it, " "]), absent];
}

// Runs of tokens of one origin and one generation: [from, to) each.
function groups({ origins, generations, kept }) {
  const found = [];
  for (let from = 0; from < origins.length;) {
    let to = from + 1;
    while (to < origins.length && to !== kept && origins[to] === origins[from] && generations[to] === generations[from]) to += 1;
    found.push([from, to]);
    from = to;
  }
  return found;
}

function group(ledger, from, to, colour, form) {
  const [origin, generation] = [ledger.origins[from], ledger.generations[from]];
  const rewritten = ledger.fork_reason && from === ledger.kept;
  const title = `${rewritten ? "rewritten from here: " : ""}${origin}${generation ? `, call ${generation}` : ""}`;
  const tokens = [];
  for (let at = from; at < to; at += 1) {
    const text = form === "text" ? spelled(ledger.texts[at]) : ledger.ids[at];
    tokens.push(make("span", { class: `token ${tone(ledger, at, colour)}`, title: about(ledger, at) }, text));
    if (form !== "text") tokens.push(" ");
  }
  return make("section", { class: "token-group" },
    make("h3", { class: rewritten ? "failed" : null }, `${title}, ${number(to - from)} tokens`),
    make("p", { class: `token-run ${form}` }, tokens));
}

// A line's end is seen, and ends the line, too.
function spelled(text) {
  return text === "" ? "∅" : text.replaceAll("\n", "↵\n");
}

function tone(ledger, at, colour) {
  if (ledger.origins[at] !== "sampled") return ledger.origins[at];
  if (colour === "version") return `sampled v${Math.max(ledger.versions[at], 0) % 6}`;
  const { limits, of } = SCALES[colour];
  return `sampled s${limits.filter((it) => of(ledger, at) >= it).length}`;
}

function about(ledger, at) {
  const id = ledger.texts ? `id ${ledger.ids[at]}` : null;
  if (ledger.origins[at] !== "sampled") return id;
  const entropy = ledger.entropies.length ? `entropy ${number(ledger.entropies[at], 4)}` : null;
  return [id, `logprob ${number(ledger.logprobs[at], 4)}`, `probability ${(100 * Math.exp(ledger.logprobs[at])).toPrecision(3)} %`,
    entropy, `version ${version(ledger, at)}`].filter(Boolean).join(", ");
}

function version({ versions, policy_versions }, at) {
  return versions[at] >= 0 ? policy_versions[versions[at]] : "unknown";
}

function table(ledger) {
  const shown = Math.min(ledger.ids.length, MOST_ROWS);
  const rows = Array.from({ length: shown }, (_, at) => {
    const sampled = ledger.origins[at] === "sampled";
    return [at, ledger.ids[at], ledger.texts ? JSON.stringify(ledger.texts[at]) : "–", ledger.origins[at],
      ledger.generations[at] || "–", sampled ? number(ledger.logprobs[at], 4) : "–",
      sampled && ledger.entropies.length ? number(ledger.entropies[at], 4) : "–", sampled ? version(ledger, at) : "–"];
  });
  return [
    shown < ledger.ids.length ? make("p", { class: "quiet" }, `the first ${number(shown)} of ${number(ledger.ids.length)} tokens`) : null,
    scrolled("Tokens", make("table", { class: "token-table" }, make("caption", { class: "unseen" }, "Tokens"),
      make("thead", {}, make("tr", {}, COLUMNS.map((it) => make("th", { scope: "col" }, it)))),
      make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((it) => make("td", {}, it))))))),
  ];
}

function counts({ origins, policy_versions }) {
  const by = {};
  for (const origin of origins) by[origin] = (by[origin] ?? 0) + 1;
  const said = Object.entries(by).map(([origin, count]) => `${number(count)} ${origin}`);
  return phrase`${said.join(", ")}; policy versions: ${policy_versions.join(", ") || "none reported"}`;
}
