// One episode: its turns, one of which is the current one, and its tokens.

import { family, playOn } from "./branch_links.js";
import { compare } from "./difference.js";
import { fill, make, phrase } from "./elements.js";
import { filtersOf } from "./episodes_page.js";
import { saving } from "./exports.js";
import { amount, dollars, moment, number, seconds } from "./figures.js";
import { address, ask, askText } from "./server.js";
import { timeTravel } from "./time_travel.js";
import { timeline } from "./timeline.js";
import { showTokens } from "./tokens.js";

const LABEL = /^[ \t]*(Thought|Action):/gm;
const KEYS = [
  ["j, ↓", "next turn"], ["k, ↑", "previous turn"], ["Home, End", "first, last turn"],
  ["n, p", "next, previous episode of the list"], ["d", "what changed in observations"],
  ["s", "the environment's state"], ["t", "tokens"], ["r", "raw record"], ["l", "back to the list"], ["?", "these keys"],
];

export async function showEpisode({ page, parameters, go, tell, signal }) {
  const { run, id } = parameters;
  const filters = filtersOf(parameters);
  const data = await ask("episode", { run, id, ...filters }, { signal });
  const full = data.summary.episode_id;
  const to = (extra) => address("/episode", { run, id: full, ...filters, ...extra });
  const state = { changes: true, turn: within(Number(parameters.turn ?? 0), data.turns.length) };
  const turns = make("ol", { class: "turns", "aria-label": "Turns" });
  const tokens = make("section", { class: "tokens", "aria-label": "Tokens", hidden: true });
  const travel = timeTravel({ run, id: full, turns: data.turns, choose, signal });
  const help = make("dialog", { class: "keys", "aria-label": "Keys" },
    make("dl", {}, KEYS.map(([key, what]) => [make("dt", {}, key), make("dd", {}, what)])),
    make("form", { method: "dialog" }, make("button", {}, "Close")));
  const raw = address("/api/record", { run, id: full });
  fill(page,
    heading(data), outcome(data, { run, id: full, tell }), attempts(data, to), family(data, { run, id: full }),
    make("div", { class: "bar" },
      neighbour(data.previous, "previous episode", run, filters), neighbour(data.next, "next episode", run, filters),
      data.place === null ? null : make("span", { class: "quiet" }, `${number(data.place + 1)} of ${number(data.listed)}`),
      make("button", { onclick: (event) => playOn(event.target, { run, id: full, turn: state.turn }, { go, tell, signal }) }, "Play on from here"),
      make("button", { onclick: toggleChanges, id: "changes", "aria-pressed": "true" }, "What changed"),
      data.segments.length ? make("button", { onclick: toggleTokens, id: "show-tokens", "aria-expanded": "false" }, "Tokens") : null,
      make("a", { href: raw, target: "_blank", rel: "noopener" }, "Raw record"),
      make("a", { href: raw, download: `${full}.json` }, "Save"), saving({ run, id: full }, data.formats),
      make("button", { onclick: () => help.showModal() }, "Keys (?)")),
    timeline(data, choose), travel.bar, tokens, make("div", { class: "stage" }, turns, travel.panel), facts(data), help);
  drawTurns();
  choose(state.turn, { replace: false, scroll: "turn" in parameters });
  if ("tokens" in parameters) toggleTokens();

  function drawTurns() {
    fill(turns, data.turns.map((turn, index) =>
      turnElement(turn, state.changes ? data.turns[index - 1] : undefined,
        { run, id: full, choose, tell, image: recordedImage(run, full) })));
  }

  function choose(index, { remember = true, scroll = true } = {}) {
    state.turn = within(index, data.turns.length);
    for (const element of page.querySelectorAll("[data-turn]")) {
      const current = Number(element.dataset.turn) === state.turn;
      element.classList.toggle("current", current);
      if (current) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
    }
    // The link to this turn: no new entry of the history for each step.
    if (remember) history.replaceState(null, "", to({ turn: state.turn, tokens: tokens.hidden ? "" : "1" }));
    if (scroll) turns.children[state.turn]?.scrollIntoView({ block: "nearest" });
    travel.show(state.turn);
  }

  function toggleChanges() {
    state.changes = !state.changes;
    document.getElementById("changes").setAttribute("aria-pressed", state.changes);
    drawTurns();
    choose(state.turn, { remember: false, scroll: false });
  }

  function toggleTokens() {
    if (!data.segments.length) return;
    tokens.hidden = !tokens.hidden;
    document.getElementById("show-tokens").setAttribute("aria-expanded", !tokens.hidden);
    if (!tokens.hidden && !tokens.hasChildNodes()) {
      showTokens(tokens, { run, id: full, segments: data.segments, signal }).catch((error) => tell(error.message));
    }
  }

  const actions = {
    j: () => choose(state.turn + 1), ArrowDown: () => choose(state.turn + 1),
    k: () => choose(state.turn - 1), ArrowUp: () => choose(state.turn - 1),
    Home: () => choose(0), End: () => choose(data.turns.length - 1),
    n: () => data.next && go(address("/episode", { run, id: data.next, ...filters })),
    p: () => data.previous && go(address("/episode", { run, id: data.previous, ...filters })),
    d: toggleChanges, s: travel.toggle, t: toggleTokens, r: () => window.open(raw, "_blank", "noopener"),
    l: () => go(address("/episodes", { run, ...filters })), "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    const sliding = typing && event.target.type === "range" && event.key.length === 1;
    if ((typing && !sliding) || event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }, { signal });
}

function within(turn, count) {
  return Number.isInteger(turn) ? Math.min(Math.max(turn, 0), Math.max(count - 1, 0)) : 0;
}

function heading({ summary }) {
  const facts = [
    phrase`sample ${summary.sample}`, phrase`attempt ${summary.attempt}`, phrase`policy ${summary.policy}`,
    summary.category && phrase`category ${summary.category}`, summary.split && phrase`split ${summary.split}`,
  ].filter(Boolean);
  return [
    make("h1", {}, phrase`${summary.environment} ${summary.item_id}`),
    make("p", { class: "quiet" }, listed(facts, ", ")),
  ];
}

function listed(pieces, between) {
  return pieces.map((it, index) => [index ? between : null, it]);
}

function outcome({ summary, error }, context) {
  const figures = [
    ["score", number(summary.score)], ["reward", number(summary.reward)], ["rounds", number(summary.rounds)],
    ["tokens", `${amount(summary.prompt_tokens)} + ${amount(summary.completion_tokens)}`],
    ["cost", dollars(summary.cost_usd)],
    ["time", seconds((summary.ended_unix_ms - summary.started_unix_ms) / 1000)],
  ];
  const word = { success: "success", loss: "no success", unjudged: "not judged", failed: "failed" };
  return make("div", { class: `verdict ${summary.outcome}` },
    make("p", {}, make("span", { class: `state ${summary.outcome}` }, word[summary.outcome]), phrase` ${summary.ending}`),
    error ? make("div", { class: "failed" },
      make("p", {}, phrase`${error.blamed}: ${error.reason} after ${error.at_seq} steps (${error.retriable ? "retriable" : "not retriable"})`),
      part("error", "", error.message, context)) : null,
    make("dl", { class: "figures" }, figures.map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
}

function attempts({ summary, attempts: all }, to) {
  if (all.length < 2) return null;
  return make("details", { open: true, class: "attempts" }, make("summary", {}, `${all.length} attempts`),
    make("ol", {}, all.map((it) => make("li", {},
      it.episode_id === summary.episode_id ? make("strong", {}, `attempt ${it.attempt}`)
        : make("a", { href: to({ id: it.episode_id }) }, `attempt ${it.attempt}`),
      phrase` ${it.outcome}: ${it.ending}${it.fault ? ` (${it.fault})` : ""}, ${it.rounds} rounds`))));
}

function neighbour(id, text, run, filters) {
  return id ? make("a", { href: address("/episode", { run, id, ...filters }) }, text) : null;
}

// Returns a turn; marked is what its observation has and that of `before` has not.
// `context.live`: the episode is being played, and what is missing may still come.
export function turnElement(turn, before, context) {
  const element = make("li", { class: "turn", "data-turn": turn.turn, onclick: () => context.choose(turn.turn, { scroll: false }) },
    make("h2", {}, turn.turn ? `Turn ${turn.turn}` : "Start", player(turn)),
    turn.turn === 0 ? turn.told.map((it) => message(it, context)) : null,
    turn.call?.reasoning ? part("reasoning", "Reasoning", turn.call.reasoning, context) : null,
    turn.reply ? reply(turn.reply, context) : null,
    turn.step ? action(turn, context) : null,
    turn.step ? observation(turn.step, before?.step, context) : null,
    turn.turn ? turn.told.map((it) => message(it, context)) : null,
    turn.turn && !turn.step && !context.live ? make("p", { class: "failed" }, "no answer of the environment was recorded") : null,
    notes(turn),
    turn.step?.info ? make("details", {}, make("summary", {}, "info"), part("info", "", turn.step.info, context)) : null);
  return element;
}

function player({ inherited, call }) {
  if (!inherited && !call?.policy) return null;
  return make("span", { class: "quiet small" }, inherited ? " of the parent" : phrase` by ${call.policy}`);
}

function message(said, context) {
  return part(`said ${said.role}`, said.role, said, context);
}

// A text with a heading; a long one is there in part until the rest is asked for.
function part(kind, title, said, context, content) {
  const body = make("pre", { class: "text" }, content ?? said.text);
  const missing = said.length - characters(said);
  const more = missing > 0 && context.live
    ? make("p", { class: "quiet small" }, `${number(missing)} more characters are shown when the episode is recorded`)
    : missing > 0 && context.id ? make("button", {
    onclick: async (event) => {
      event.target.disabled = true;
      try {
        fill(body, await askText("text", { run: context.run, id: context.id, part: said.part, index: said.index }));
        event.target.remove();
      } catch (error) {
        context.tell(error.message);
      }
    },
  }, `Show ${number(missing)} more characters`) : null;
  return make("section", { class: `part ${kind}` }, title ? make("h3", {}, title) : null, body, more);
}

function reply(said, context) {
  const labels = [...said.text.matchAll(LABEL)];
  if (!labels.length || said.length > characters(said)) return part("reply", "Reply", said, context);
  const ends = [...labels.slice(1).map((it) => it.index), said.text.length];
  const head = said.text.slice(0, labels[0].index).trim();
  const pieces = labels.map((label, index) => [label[1], said.text.slice(label.index + label[0].length, ends[index]).trim()]);
  return [
    head ? part("reply", "Reply", whole(head), context) : null,
    pieces.map(([label, text]) => part(label.toLowerCase(), label, whole(text), context)),
  ];
}

function whole(text) {
  return { text, length: 0 };
}

// As the server counts them: JavaScript's own length counts some twice.
function characters({ text }) {
  return [...text].length;
}

function action(turn, context) {
  const { step } = turn;
  if (!turn.turn) return null;
  const sent = step.input ? part("action", step.input_kind.replace("_", " "), step.input, context) : null;
  const unread = turn.reply && !step.action;
  return [sent,
    step.action ? part("parsed", "Read as", step.action, context) : null,
    unread ? make("p", { class: "failed small" }, "no action was read from the reply") : null];
}

function observation(step, before, context) {
  const said = step.observation;
  const isWhole = said.length === characters(said);
  const pieces = before && isWhole ? compare(before.observation.text, said.text) : null;
  const isOther = pieces?.some((it) => !it.isNew && it.text.trim());
  const content = isOther ? pieces.map((it) => it.isNew ? make("mark", {}, it.text) : it.text) : undefined;
  return [part("observation", "Observation", said, context, content), images(step.images, context)];
}

// What the agent saw beside the text: bitmaps, which the server sends as nothing else.
function images(places, context) {
  if (!places.length) return null;
  const count = `${number(places.length)} ${places.length === 1 ? "image" : "images"}`;
  const shown = context.image && !context.live
    ? places.map((place, index) => make("img", {
      src: context.image(place), loading: "lazy", alt: `Image ${index + 1} of ${places.length} of the observation` }))
    : make("p", { class: "quiet small" }, `${count}, shown when the episode is recorded`);
  return make("section", { class: "part images" }, make("h3", {}, count), shown);
}

// Returns where an image of a recorded episode is.
export function recordedImage(run, id) {
  return (place) => address("/api/image", { run, id, place });
}

function notes({ step, call }) {
  const said = [];
  if (step) {
    if (step.reward !== null) said.push(`reward ${number(step.reward)}`);
    if (step.score !== null) said.push(`score ${number(step.score)}`);
    if (step.terminated) said.push("terminated");
    if (step.truncated) said.push("truncated");
    if (step.stop_reason) said.push(step.stop_reason);
    if (step.state_hash) said.push(`state ${step.state_hash.slice(0, 16)}`);
    if (step.seconds) said.push(`environment ${seconds(step.seconds)}`);
  }
  if (call) {
    said.push(`${number(call.prompt_tokens)} + ${number(call.completion_tokens)} tokens`);
    if (call.cached_tokens) said.push(`${number(call.cached_tokens)} of them cached`);
    if (call.reasoning_tokens) said.push(`${number(call.reasoning_tokens)} reasoning`);
    if (call.seconds) said.push(`policy ${seconds(call.seconds)}`);
    if (call.finish_reason && call.finish_reason !== "stop") said.push(phrase`finish: ${call.finish_reason}`);
    if (call.policy_version) said.push(phrase`version ${call.policy_version}`);
    if (call.cost_usd !== null) said.push(dollars(call.cost_usd));
    if (call.same_completion) said.push("called in the same completion");
    if (call.from_cache) said.push("from the response cache");
    for (const [reason, times] of Object.entries(call.repeats)) said.push(phrase`sent again ${times} times: ${reason}`);
  }
  return make("p", { class: "notes quiet small" }, listed(said, " · "));
}

function facts(data) {
  const { summary } = data;
  const rows = [
    ["episode", summary.episode_id], ["environment", phrase`${summary.environment} ${data.environment_version}`],
    ["digest", data.environment_digest], ["seed", data.seed], ["action format", data.action_format],
    ["profile", data.profile], ["options", data.options],
    ["begun", moment(summary.started_unix_ms)], ["ended", moment(summary.ended_unix_ms)],
  ];
  return make("details", { class: "facts" }, make("summary", {}, "About this episode"),
    make("dl", {}, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
}
