// How long each turn took: a bar for each, of the policy's seconds with the environment's above them.

import { make } from "./elements.js";
import { seconds } from "./figures.js";

const HEIGHT = 40; // pixels of the whole bar

export function timeline(data, choose) {
  const turns = data.turns.map((turn) => ({
    turn, policy: turn.call?.seconds ?? 0, environment: turn.step?.seconds ?? 0,
  }));
  const most = Math.max(...turns.map((it) => it.policy + it.environment), 0);
  const isWhole = data.turns.every((turn) => !turn.step || turn.step.seconds !== null);
  const bars = turns.map(({ turn, policy, environment }, index) => {
    const said = [turn.call ? `policy ${seconds(policy)}` : null, isWhole && turn.step ? `environment ${seconds(environment)}` : null];
    const label = `turn ${index}: ${said.filter(Boolean).join(", ") || "no time recorded"}`;
    return make("button", {
      class: "turn-bar", "data-turn": index, onclick: () => choose(index), "aria-label": label, title: label,
    }, bar(turn, policy, environment, most || 1));
  });
  const { policy_seconds, environment_seconds } = data.summary;
  return make("figure", { class: "timeline" },
    make("div", { class: "bars" }, bars),
    make("figcaption", { class: "quiet small" },
      "seconds by turns: ", make("span", { class: "key policy" }, "policy"), ` ${seconds(policy_seconds)} in all, `,
      make("span", { class: "key environment" }, "environment"), ` ${seconds(environment_seconds)}`,
      isWhole ? "" : " (by turns it was not recorded)", `; the longest turn ${seconds(most)}`));
}

function bar(turn, policy, environment, most) {
  const [low, high] = [policy, environment].map((it) => (it > 0 ? Math.max((it / most) * (HEIGHT - 4), 1) : 0));
  const tone = turn.step?.reward > 0 ? "good" : turn.step ? "" : "failed";
  return make("svg", { width: 8, height: HEIGHT, "aria-hidden": "true", class: `bar-mark ${tone}` },
    make("rect", { x: 0, y: HEIGHT - Math.max(low, 1), width: 8, height: Math.max(low, 1) }),
    high ? make("rect", { class: "environment", x: 0, y: HEIGHT - low - high, width: 8, height: high }) : null);
}
