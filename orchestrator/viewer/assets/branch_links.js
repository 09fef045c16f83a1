// Where an episode goes off, what goes off from it, and how one plays on.

import { make, phrase } from "./elements.js";
import { number } from "./figures.js";
import { address, post } from "./server.js";

const OUTCOMES = { success: "success", loss: "no success", unjudged: "not judged", failed: "failed" };

// Returns links to the parent of an episode, to its other branches, and to branches of its own.
export function family({ parent, siblings, branches }, { run, id }) {
  return [
    parent ? make("p", { class: "parent" }, "A branch of ",
      parent.run ? make("a", { href: address("/episode", { run: parent.run, id: parent.id, turn: parent.turn }) }, "this episode") : phrase`episode ${parent.id}`,
      phrase` of run ${parent.run ?? parent.run_id}, from turn ${number(parent.turn)} on. `,
      parent.run ? make("a", { href: sideBySide(parent, { run, id }) }, "Side by side") : null) : null,
    list("of the same episode", siblings, { run, id }),
    list("", branches, { run, id }),
  ];
}

function list(which, branches, shown) {
  if (!branches.length) return null;
  const count = branches.length === 1 ? "1 branch" : `${number(branches.length)} branches`;
  const other = which ? `${count.replace(" ", " other ")} ${which}` : count;
  return make("details", { open: true, class: "attempts" }, make("summary", {}, other),
    make("ul", {}, branches.map((it) => it.problem ? make("li", { class: "failed" }, it.problem) : make("li", {},
      make("a", { href: address("/episode", { run: it.run, id: it.id }) }, `from turn ${number(it.turn)}`),
      phrase` by ${it.policy}: ${OUTCOMES[it.outcome]}, ${it.stop_reason}, ${number(it.rounds)} rounds. `,
      make("a", { href: sideBySide(shown, it) }, "Side by side")))));
}

// Returns the address of two episodes, each { run, id }, side by side.
export function sideBySide(first, second) {
  return address("/side-by-side", { run: first.run, id: first.id, other_run: second.run, other_id: second.id });
}

// Opens a branch and shows it; `given` says of what. Says so where that fails.
export async function playOn(button, given, { go, tell, signal }) {
  button.disabled = true;
  const text = button.textContent;
  button.textContent = "opening …";
  try {
    const data = await post("branch", { do: "open", ...given }, { signal });
    go(address("/play", { run: data.run, branch: data.branch }));
  } catch (error) {
    if (signal.aborted) return;
    tell(error.message);
    button.textContent = text;
    button.disabled = false;
  }
}
