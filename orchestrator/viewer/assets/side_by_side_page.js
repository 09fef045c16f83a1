// Two episodes side by side, turn by turn: where they part, and what differs from there on.

import { fill, make, phrase, scrolled } from "./elements.js";
import { recordedImage, turnElement } from "./episode_page.js";
import { number } from "./figures.js";
import { address, ask } from "./server.js";

export async function showSideBySide({ page, parameters, tell, signal }) {
  const sides = await Promise.all([
    side(parameters.run, parameters.id, signal), side(parameters.other_run, parameters.other_id, signal),
  ]);
  const count = Math.max(...sides.map(({ data }) => data.turns.length));
  const parted = sides.map(({ data }) => data.turns).reduce((one, other) => parting(one, other, count));
  const rows = Array.from({ length: count }, (_, index) => row(index, sides, parted, tell));
  fill(page, make("h1", {}, "Side by side"),
    make("p", { role: "status" }, parted === count ? "Both are the same, turn by turn."
      : `The same up to ${parted > 1 ? `turn ${number(parted - 1)}` : parted ? "the start" : "nothing"}; marked is what the second has otherwise. `,
      parted < count ? make("a", { href: "#parted" }, "To where they part") : null),
    scrolled("Both episodes", make("table", { class: "sides" },
      make("caption", { class: "unseen" }, "Turns of both episodes"),
      make("thead", {}, make("tr", {}, sides.map(heading))),
      make("tbody", {}, rows))));
}

async function side(run, id, signal) {
  if (!run || !id) throw new Error("the address has to name two episodes: run, id, other_run and other_id");
  return { run, data: await ask("episode", { run, id }, { signal }) };
}

// Returns the first turn in which two episodes are not the same; `count` where there is none.
function parting(one, other, count) {
  const said = (turn) => turn && JSON.stringify([turn.reply?.text, turn.step?.input?.text, turn.step?.observation.text, turn.step?.state_hash]);
  const at = Array.from({ length: count }, (_, index) => index).find((index) => said(one[index]) !== said(other[index]));
  return at ?? count;
}

function heading({ run, data: { summary } }) {
  return make("th", { scope: "col" },
    make("a", { href: address("/episode", { run, id: summary.episode_id }) }, phrase`${summary.environment} ${summary.item_id}`),
    make("div", { class: "quiet small" }, phrase`${run}, policy ${summary.policy}: `,
      make("span", { class: `state ${summary.outcome}` }, phrase`${summary.ending}`), ` after ${number(summary.rounds)} rounds`));
}

function row(index, sides, parted, tell) {
  const first = sides[0].data.turns[index];
  const parts = index >= parted;
  return make("tr", { class: parts ? "parts" : null, id: index === parted ? "parted" : null },
    sides.map(({ run, data }, at) => {
      const turn = data.turns[index];
      const id = data.summary.episode_id;
      const context = { run, id, choose: () => {}, tell, image: recordedImage(run, id) };
      // What is marked in the second is new to the first, not to the turn before.
      return make("td", {}, turn
        ? make("ol", { class: "turns" }, turnElement(turn, at && parts && first ? first : undefined, context))
        : make("p", { class: "quiet" }, "has ended"));
    }));
}
