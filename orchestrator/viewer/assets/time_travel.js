// The environment's own state at each turn of an episode: pictures, and what an agent does not see.

import { fill, make } from "./elements.js";
import { number } from "./figures.js";
import { address, post } from "./server.js";

// Stays while one goes from episode to episode, and is no part of an address: a link starts nothing.
const wish = { shown: false, views: new Map() };

// Returns a slider over the turns and a panel beside them; `choose` is what the slider asks for,
// `show` is told which turn is the current one.
export function timeTravel({ run, id, turns, choose, signal }) {
  const slider = make("input", {
    type: "range", id: "turn-slider", min: 0, max: Math.max(turns.length - 1, 0), step: 1, value: 0,
    oninput: () => choose(Number(slider.value)),
  });
  const place = make("output", { for: "turn-slider", class: "quiet" });
  const button = make("button", { id: "show-state", "aria-controls": "state", onclick: toggle }, "Show the environment's state");
  const content = make("div", { class: "state-content" });
  const asking = make("p", { class: "quiet small", role: "status" });
  const panel = make("section", { class: "state-panel", id: "state", "aria-label": "The environment's state" }, asking, content);
  const bar = make("div", { class: "bar travel" },
    make("label", { for: "turn-slider" }, "Turn"), slider, place, button);
  let wanted = 0;
  let busy = false;
  reflect();
  return { bar, panel, show, toggle };

  function show(turn) {
    wanted = turn;
    slider.value = turn;
    const named = `${turn ? `turn ${turn}` : "start"} of ${turns.length - 1}`;
    slider.setAttribute("aria-valuetext", named);
    place.textContent = named;
    if (wish.shown) follow();
  }

  function toggle() {
    wish.shown = !wish.shown;
    reflect();
    choose(wanted); // in sight again, for the turns have moved
  }

  function reflect() {
    panel.hidden = !wish.shown;
    button.setAttribute("aria-expanded", wish.shown);
  }

  // One question at a time: a slider passes many turns, and only the one where it stops matters.
  async function follow() {
    if (busy) return;
    busy = true;
    try {
      let shown;
      while (wish.shown && shown !== wanted && !signal.aborted) {
        shown = wanted;
        await visit(shown);
      }
    } finally {
      busy = false;
    }
  }

  async function visit(turn) {
    panel.setAttribute("aria-busy", "true");
    asking.textContent = `asking the environment for ${turn ? `turn ${turn}` : "the start"} …`;
    try {
      if (!turns[turn].step) throw new Error("no answer of the environment was recorded for this turn");
      const state = await post("state", { run, id, turn }, { signal });
      const figures = await pictures(state.views, (name) => address("/api/view", { run, id, turn, name }));
      if (signal.aborted) return;
      fill(content, proof(state), figures, hidden(state));
    } catch (error) {
      if (signal.aborted) return;
      fill(content, make("p", { class: "failed text", role: "alert" }, error.message),
        make("button", { onclick: follow }, "Ask again"));
    }
    asking.textContent = "";
    panel.removeAttribute("aria-busy");
  }
}

function proof(state) {
  const { turn, recorded, server } = state;
  const steps = turn === 1 ? "1 turn" : `${number(turn)} turns`;
  return [
    make("p", { class: "small proof" },
      `Replayed ${turn ? `the reset and ${steps}` : "the reset"}: all answers and state hashes equal the recorded ones.`),
    state.same_environment ? null : make("p", { class: "small live-note" },
      `The record is of version ${recorded.version} (${recorded.digest}); this server has ${server.version} (${server.digest}).`),
    state.draws ? null : make("p", { class: "quiet" }, "This environment draws no pictures."),
  ];
}

// Returns an element for each view of a state; `source` gives the address of one by its name.
export function pictures(views, source) {
  return Promise.all(views.map((view, index) => viewElement(view, index, source(view.name))));
}

async function viewElement(view, index, source) {
  const body = make("div", {});
  const open = wish.views.get(view.name) ?? index === 0;
  const element = make("details", { class: "view", open }, make("summary", { onclick: remember }, view.title), body);
  if (open) await draw(view, body, source);
  return element;

  function remember() {
    wish.views.set(view.name, !element.open); // as it will be
    if (!element.open && !body.hasChildNodes()) draw(view, body, source);
  }
}

// Pictures come as images, pages in frames without scripts and without an origin: a stranger's bytes
// never become elements of this page.
async function draw(view, body, source) {
  if (view.kind === "text") {
    const rest = view.length - [...view.text].length;
    fill(body, make("pre", { class: "text" }, view.text),
      rest > 0 ? make("p", { class: "quiet small" }, `${number(rest)} more characters`) : null);
  } else if (view.kind === "image") {
    const image = make("img", { src: source, alt: view.title });
    fill(body, image);
    // Shown when it can be: the picture of the turn before stays until then.
    await image.decode().catch(() => fill(body, make("p", { class: "failed" }, "this picture cannot be drawn")));
  } else if (view.kind === "page") {
    fill(body, make("iframe", { src: source, title: view.title, sandbox: true, referrerpolicy: "no-referrer" }));
  } else {
    fill(body, make("p", { class: "quiet" }, `a view of the type ${view.media_type} is not shown`));
  }
}

function hidden(state) {
  return make("dl", { class: "hidden-state" },
    make("dt", {}, "state hash"), make("dd", {}, state.state_hash || "none"),
    make("dt", {}, "environment"), make("dd", {}, `version ${state.server.version}, digest ${state.server.digest}`),
    state.info ? [make("dt", {}, "info"), make("dd", {}, make("pre", { class: "text" }, state.info.text))] : null);
}
