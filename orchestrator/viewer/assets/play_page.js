// A person plays: on from a turn of an episode, or a task from its start.

import { playOn } from "./branch_links.js";
import { fill, make, phrase } from "./elements.js";
import { turnElement } from "./episode_page.js";
import { number } from "./figures.js";
import { address, post } from "./server.js";
import { pictures } from "./time_travel.js";

export function showPlay(context) {
  return context.parameters.branch ? showBranch(context) : showTasks(context);
}

// What is to be played: an environment of a run, and one of its tasks.
async function showTasks({ page, parameters, go, tell, signal }) {
  const { run, environment } = parameters;
  const offered = await post("branch", { do: "items", run, environment: environment ?? "" }, { signal });
  const names = make("select", { id: "environment", onchange: () => go(address("/play", { run, environment: names.value })) },
    offered.environments.map((name) => make("option", { selected: name === offered.environment }, name)));
  const item = make("input", { id: "item", list: "items", required: true, autocomplete: "off", value: offered.items[0] ?? "" });
  const button = make("button", {}, "Play");
  const begin = (event) => {
    event.preventDefault();
    playOn(button, { run, environment: names.value, item: item.value.trim() }, { go, tell, signal });
  };
  fill(page, make("h1", {}, "Play a task"),
    make("p", { class: "quiet" }, phrase`As run ${run} plays it; what you keep lies beside it, as a run of its own. `,
      "A task that you solve is a demonstration."),
    make("form", { class: "bar", onsubmit: begin },
      make("label", { class: "field" }, "Environment ", names),
      make("label", { class: "field" }, "Task ", item),
      make("datalist", { id: "items" }, offered.items.map((it) => make("option", { value: it }))), button));
  item.focus();
}

async function showBranch({ page, parameters, go, tell, signal }) {
  const key = parameters.branch;
  const turns = make("ol", { class: "turns", "aria-label": "Turns" });
  const views = make("div", { class: "state-content" });
  const status = make("p", { role: "status", class: "quiet" });
  const advice = make("section", { class: "advice", "aria-label": "What the expert says" });
  const actions = make("datalist", { id: "actions" });
  const action = make("input", { id: "action", list: "actions", autocomplete: "off", class: "wide-field" });
  const thought = make("input", { id: "thought", autocomplete: "off", class: "wide-field" });
  const reply = make("textarea", { id: "reply", rows: 6, class: "wide-field" });
  const players = make("select", { id: "player" });
  const most = make("input", { id: "turns", type: "number", min: 1, max: 1000, value: 5 });
  const stop = make("button", { type: "button", hidden: true, onclick: () => { stopped = true; } }, "Stop");
  const moves = make("fieldset", { class: "moves" });
  const ends = make("fieldset", { class: "moves bar" });
  let data = await post("branch", { do: "look", branch: key }, { signal });
  let stopped = false;
  let looks = 0;

  const byParts = make("form", { onsubmit: submit(() => ({ action: action.value.trim(), thought: thought.value.trim() })) },
    make("label", { for: "action" }, "Action"), action, actions,
    make("label", { for: "thought" }, "Thought, if it is to be learned, too"), thought,
    make("button", { id: "play" }, "Play it"));
  const whole = make("details", {}, make("summary", {}, "Write the whole reply"),
    make("form", { onsubmit: submit(() => ({ reply: reply.value })) },
      make("label", { for: "reply" }, "Reply, as a policy writes it"), reply, make("button", {}, "Play the reply")));
  const expert = make("button", { type: "button", onclick: () => during("asking the expert", askExpert) }, "Ask the expert");
  const undo = make("button", { type: "button", onclick: () => during("taking back", () => act("undo")) }, "Take the last turn back");
  fill(moves, make("legend", {}, "Your turn"), byParts, whole,
    make("div", { class: "bar" }, expert),
    advice,
    make("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); during("", letGoOn); } },
      make("label", { class: "field" }, "Let ", players), make("label", { class: "field" }, "go on for ", most, " turns"),
      make("button", {}, "Go on")));
  fill(ends, make("legend", {}, "This branch"), undo,
    make("button", { type: "button", onclick: () => during("keeping", keep) }, "Keep"),
    make("button", { type: "button", onclick: () => during("discarding", discard) }, "Discard"));
  fill(page, heading(data), status, stop,
    make("div", { class: "stage" },
      make("div", {}, turns, moves, ends, help(data)),
      make("section", { class: "state-panel", "aria-label": "The environment's state" }, views)));
  fill(players, data.players.map((name) => make("option", {}, name)));
  await draw();

  function submit(given) {
    return (event) => {
      event.preventDefault();
      during("playing", () => act("act", given()));
    };
  }

  // One thing at a time; what goes wrong is said, and the branch is where it was.
  async function during(what, work) {
    moves.disabled = ends.disabled = true;
    tell("");
    if (what) status.textContent = `${what} …`;
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      tell(error.message);
    }
    describe();
  }

  async function act(name, given = {}) {
    data = await post("branch", { do: name, branch: key, ...given }, { signal });
    await draw();
  }

  async function askExpert() {
    const said = await post("branch", { do: "advise", branch: key }, { signal });
    fill(advice, make("p", {}, said.thought ? make("em", {}, said.thought, " ") : null, make("strong", {}, said.action)),
      make("button", { type: "button", onclick: () => use(said) }, "Take it over"));
  }

  function use(said) {
    action.value = said.action;
    thought.value = said.thought;
    reply.value = said.reply;
    (data.written ? action : reply).focus();
  }

  // Turn by turn, so that one sees it and can stop it.
  async function letGoOn() {
    const wanted = data.turn + most.valueAsNumber;
    stopped = false;
    stop.hidden = false;
    try {
      while (!data.ended && data.turn < wanted && !stopped && !signal.aborted) {
        status.textContent = `${players.value} plays turn ${number(data.turn + 1)} …`;
        await act("go_on", { policy: players.value, turns: 1 });
      }
    } finally {
      stop.hidden = true;
    }
  }

  async function keep() {
    const kept = await post("branch", { do: "keep", branch: key }, { signal });
    go(address("/episode", kept), { replace: true });
  }

  async function discard() {
    await post("branch", { do: "discard", branch: key }, { signal });
    const { parent, run } = data;
    go(parent ? address("/episode", { run, id: parent.id, turn: parent.turn }) : address("/run", { run }), { replace: true });
  }

  async function draw() {
    looks += 1; // a browser keeps what it has loaded from an address: after a turn taken back it is another image
    const image = (place) => address("/api/branch_image", { branch: key, place, looks });
    const shown = data.turns.map((turn, index) => turnElement(turn, data.turns[index - 1], { choose: () => {}, tell, image }));
    shown.at(-1)?.classList.add("current");
    fill(turns, shown);
    fill(actions, data.actions.map((it) => make("option", { value: it })));
    fill(advice);
    action.value = thought.value = reply.value = "";
    reply.placeholder = data.example;
    byParts.hidden = !data.written;
    whole.open = !data.written;
    expert.hidden = !data.has_expert;
    const turn = data.state.turn;
    const figures = await pictures(data.state.views, (name) => address("/api/branch_view", { branch: key, turn, name }));
    fill(views, figures.length ? figures : make("p", { class: "quiet" }, "This environment draws no pictures."));
    describe();
    shown.at(-1)?.scrollIntoView({ block: "nearest" });
  }

  function describe() {
    const { turn, most_turns, ended, outcome, stop_reason, score } = data;
    moves.disabled = ended;
    ends.disabled = false;
    undo.disabled = turn <= data.first_turn;
    status.textContent = ended
      ? `It has ended: ${outcome === "success" ? "success" : "no success"}, ${stop_reason}, score ${number(score)}.`
      : `Turn ${number(turn)} of at most ${number(most_turns)}${score === null ? "" : `, score ${number(score)}`}.`;
    // What was disabled has lost the focus: whoever plays by keyboard types on.
    const isFree = [document.body, page].includes(document.activeElement);
    if (isFree && !ended) (data.written ? action : reply).focus({ preventScroll: true });
  }
}

function heading({ run, parent, environment, item_id }) {
  return [
    make("h1", {}, phrase`Playing ${environment} ${item_id}`),
    make("p", { class: "quiet" }, parent
      ? ["A branch of ", make("a", { href: address("/episode", { run, id: parent.id, turn: parent.turn }) }, "an episode"), phrase` of ${run}, from turn ${number(parent.turn)} on.`]
      : ["A task of ", make("a", { href: address("/run", { run }) }, run), ", from its start."],
      " Only what you keep stays."),
  ];
}

function help({ instruction, functions, action_format }) {
  const tools = JSON.parse(functions || "[]").map((it) => it.function ?? it);
  return make("details", { class: "facts" }, make("summary", {}, "What can be written here"),
    make("p", { class: "quiet" }, phrase`Replies are of the format ${action_format}. While you type, plausible actions are offered; there are more.`),
    tools.length ? make("dl", {}, tools.map((it) => [
      make("dt", {}, `${it.name}(${Object.keys(it.parameters?.properties ?? {}).join(", ")})`), make("dd", {}, it.description ?? ""),
    ])) : null,
    make("pre", { class: "text" }, instruction));
}
