// One episode while it is played: its turns so far, and the reply that is being written.

import { fill, make, phrase, visible } from "./elements.js";
import { turnElement } from "./episode_page.js";
import { number, seconds } from "./figures.js";
import { address, readLines } from "./server.js";

const KEYS = [
  ["space", "pause, go on"], ["j, ↓", "next turn"], ["k, ↑", "previous turn"],
  ["Home, End", "first, last turn"], ["l", "what else is played"], ["?", "these keys"],
];
const ENDS = {
  recorded: "The episode has ended.",
  unrecorded: "The episode was given up before it ended: the run has stopped, and kept no record of it.",
  lost: "The run has ended, or was killed, before the episode did.",
};

// Resolves when the page is seen, or left.
function seen(signal) {
  return new Promise((resolve) => {
    const look = () => { if (!document.hidden || signal.aborted) resolve(); };
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

export async function showWatch({ page, parameters, go, tell, signal }) {
  const { run, id } = parameters;
  const known = { state: null, turns: [], draft: "", ended: "", problem: "" };
  const view = { paused: false, drawn: 0, turn: 0, late: false };
  const title = make("h1", {}, phrase`An episode of ${run}`);
  const facts = make("p", { class: "quiet" });
  const waiting = make("span");
  const news = make("p", { class: "live-news unseen", role: "status", "aria-live": "polite" });
  const after = make("span", { class: "after" });
  const turns = make("ol", { class: "turns live", "aria-label": "Turns" });
  const draft = make("pre", { class: "text" });
  const writing = make("section", { class: "turn draft", "aria-label": "Reply being written", hidden: true },
    make("h2", {}, "Being written"), draft);
  const pause = make("button", { "aria-pressed": "false", onclick: toggle }, "Pause");
  const help = make("dialog", { class: "keys", "aria-label": "Keys" },
    make("dl", {}, KEYS.map(([key, what]) => [make("dt", {}, key), make("dd", {}, what)])),
    make("form", { method: "dialog" }, make("button", {}, "Close")));
  fill(page, title, facts, turns, writing, make("div", { class: "bar lasting" }, pause,
    make("a", { href: address("/live", { run }) }, "What else is played"),
    make("button", { onclick: () => help.showModal() }, "Keys (?)"), waiting, after), news, help);

  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    // A button takes the space bar itself.
    const pressed = event.key === " " && event.target instanceof Element && event.target.closest("button, a");
    if (typing || pressed || event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }, { signal });
  const actions = {
    " ": toggle, j: () => choose(view.turn + 1), ArrowDown: () => choose(view.turn + 1),
    k: () => choose(view.turn - 1), ArrowUp: () => choose(view.turn - 1),
    Home: () => choose(0), End: () => choose(view.drawn - 1),
    l: () => go(address("/live", { run })), "?": () => help.showModal(),
  };
  // Between updates only the time goes on.
  const ticking = setInterval(() => drawWaiting(), 1000);
  signal.addEventListener("abort", () => clearInterval(ticking), { once: true });

  while (!known.ended && !signal.aborted) {
    await seen(signal);
    // A page that nobody sees holds none of the few connections that a browser has for a server.
    const reading = new AbortController();
    const stop = () => document.hidden && reading.abort();
    document.addEventListener("visibilitychange", stop, { signal: reading.signal });
    signal.addEventListener("abort", () => reading.abort(), { once: true, signal: reading.signal });
    try {
      for await (const piece of readLines("watch", { run, id }, { signal: reading.signal })) {
        take(piece);
        if (!view.paused) draw();
      }
      if (!known.ended) end("", "The viewer has ended, or does not answer. The run goes on without it.");
    } catch (error) {
      if (reading.signal.aborted) continue;
      if (!known.state) throw error;
      end("", `The viewer does not answer any more (${error.message}). The run goes on without it.`);
    } finally {
      reading.abort();
    }
  }

  function take(piece) {
    if (piece.turns) {
      known.state = piece.state;
      known.skew = Date.now() - piece.now_unix_ms;
      known.turns.splice(piece.from, Infinity, ...piece.turns);
      known.draft = piece.draft;
      view.drawn = Math.min(view.drawn, piece.from);
      view.late = piece.changes > 1;
    }
    if (piece.ended) end(piece.ended, piece.problem ?? "");
  }

  function end(how, problem) {
    known.ended = how || "left";
    const recorded = how === "recorded" ? make("a", { href: address("/episode", { run, id }) }, "Its record") : null;
    fill(after, make("span", {}, problem || ENDS[how]), " ",
      recorded ?? make("a", { href: address("/run", { run }) }, "The run"));
    announce(problem || ENDS[how]);
    if (view.paused) return;
    draw();
  }

  function draw() {
    const { state } = known;
    if (state) {
      fill(title, phrase`${state.environment} ${state.item_id}`);
      fill(facts, phrase`sample ${state.sample}, attempt ${state.attempt}, policy ${state.policy}`,
        state.category ? phrase`, category ${state.category}` : null, "; ",
        state.streams ? "replies are shown while they are written" : "this policy's replies are shown when they are whole");
    }
    const hadAll = view.turn >= turns.children.length - 1;
    const isNew = view.drawn < known.turns.length;
    while (turns.children.length > view.drawn) turns.lastElementChild.remove();
    for (; view.drawn < known.turns.length; view.drawn += 1) {
      const turn = known.turns[view.drawn];
      // The last turn of a live episode is not over yet: it says nothing of what is missing.
      turns.append(turnElement(turn, known.turns[view.drawn - 1], { run, id, choose, tell, live: !known.ended }));
    }
    fill(draft, known.draft);
    writing.hidden = !known.draft || Boolean(known.ended);
    drawWaiting();
    if (isNew) announce(lastNews());
    if (isNew && hadAll) choose(view.drawn - 1, { scroll: false });
    if (hadAll) page.scrollIntoView({ block: "end" });
  }

  // What a screen reader says: once a turn, never for each token.
  function lastNews() {
    const turn = known.turns.at(-1);
    if (known.ended || !turn) return news.textContent;
    const what = turn.step ? (turn.turn ? "the environment answered" : "the episode has begun") : "the policy replied";
    return `Turn ${turn.turn}: ${what}${view.late ? ", with what came before it" : ""}`;
  }

  function announce(text) {
    if (news.textContent !== visible(text)) fill(news, text);
  }

  function drawWaiting() {
    const { state, ended } = known;
    if (!state || ended) return void fill(waiting);
    if (view.paused) return void fill(waiting, `Paused here, not the run: it is at turn ${number(state.turn)} now.`);
    const since = Math.max(Math.round((Date.now() - known.skew - state.since_unix_ms) / 1000), 0);
    return void fill(waiting, `waits for the ${state.waits_for} for ${seconds(since)}`);
  }

  function toggle() {
    view.paused = !view.paused;
    pause.setAttribute("aria-pressed", view.paused);
    fill(pause, view.paused ? "Go on" : "Pause");
    if (view.paused) drawWaiting();
    else {
      view.turn = turns.children.length - 1;
      draw();
    }
  }

  function choose(index, { scroll = true } = {}) {
    view.turn = Math.min(Math.max(index, 0), Math.max(turns.children.length - 1, 0));
    for (const element of turns.children) {
      const current = element === turns.children[view.turn];
      element.classList.toggle("current", current);
      if (current) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
    }
    if (scroll) turns.children[view.turn]?.scrollIntoView({ block: "nearest" });
  }
}
