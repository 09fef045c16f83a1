// The token ledger of an episode: which tokens were sampled, how likely they were, by which weights.

import { fill, make, phrase } from "./elements.js";
import { number } from "./figures.js";
import { ask } from "./server.js";

const SHADES = [-0.01, -0.1, -0.5, -1, -2, -4]; // logprobs at which the shade changes

export async function showTokens(section, { run, id, segments, signal }) {
  const body = make("div", { class: "ledger" });
  const mode = make("select", { id: "token-colour", onchange: () => draw() },
    make("option", { value: "logprob" }, "logprob"), make("option", { value: "version" }, "policy version"));
  const choice = make("select", { id: "token-segment", onchange: () => load(Number(choice.value)) },
    segments.map((it, index) => make("option", { value: index }, `${index + 1}: ${number(it.tokens)} tokens`)));
  fill(section, make("h2", {}, "Tokens"),
    make("div", { class: "bar" },
      make("label", { for: "token-colour" }, "Colour"), mode,
      segments.length > 1 ? [make("label", { for: "token-segment" }, "Segment"), choice] : null,
      make("span", { class: "token context" }, "context"), make("span", { class: "token sampled s1" }, "sampled"),
      make("span", { class: "token forced" }, "forced")),
    body);
  let ledger = null;

  async function load(segment) {
    ledger = await ask("tokens", { run, id, segment }, { signal });
    draw();
  }

  function draw() {
    fill(body,
      ledger.fork_reason ? make("p", { class: "failed" }, phrase`A new segment: ${ledger.fork_reason}`) : null,
      make("p", { class: "quiet small" }, counts(ledger)),
      groups(ledger).map(([from, to]) => group(ledger, from, to, mode.value)));
  }

  await load(0);
}

// Runs of tokens of one origin and one generation: [from, to) each.
function groups({ origins, generations }) {
  const found = [];
  for (let from = 0; from < origins.length;) {
    let to = from + 1;
    while (to < origins.length && origins[to] === origins[from] && generations[to] === generations[from]) to += 1;
    found.push([from, to]);
    from = to;
  }
  return found;
}

function group(ledger, from, to, mode) {
  const [origin, generation] = [ledger.origins[from], ledger.generations[from]];
  const title = generation ? `${origin}, call ${generation}` : origin;
  const tokens = [];
  for (let index = from; index < to; index += 1) tokens.push(token(ledger, index, mode), " ");
  return make("section", { class: "token-group" }, make("h3", {}, `${title}, ${number(to - from)} tokens`),
    make("p", { class: "token-run" }, tokens));
}

function token(ledger, index, mode) {
  const origin = ledger.origins[index];
  if (origin !== "sampled") return make("span", { class: `token ${origin}` }, ledger.ids[index]);
  const logprob = ledger.logprobs[index];
  const version = ledger.versions[index];
  const shade = mode === "version" ? `v${Math.max(version, 0) % 6}` : `s${SHADES.filter((it) => logprob < it).length}`;
  const name = version >= 0 ? ledger.policy_versions[version] : "unknown";
  return make("span", { class: `token sampled ${shade}`, title: `logprob ${number(logprob, 4)}, version ${name}` }, ledger.ids[index]);
}

function counts({ origins, policy_versions }) {
  const by = {};
  for (const origin of origins) by[origin] = (by[origin] ?? 0) + 1;
  const said = Object.entries(by).map(([origin, count]) => `${number(count)} ${origin}`);
  return phrase`${said.join(", ")}; policy versions: ${policy_versions.join(", ") || "none reported"}`;
}
