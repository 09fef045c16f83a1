// What a run is playing now: a list that keeps up, and the line on the run's page that leads to it.

import { fill, make, phrase, scrolled, visible } from "./elements.js";
import { number, seconds } from "./figures.js";
import { follow } from "./following.js";
import { address, ask } from "./server.js";

const PAUSE = 2000;
const COLUMNS = ["episode", "policy", "sample", "attempt", "turn", "waits for", "for", "since its start"];
const FIGURES = new Set(["sample", "attempt", "turn", "for", "since its start"]);

export async function showLive({ page, parameters, tell, signal }) {
  const { run } = parameters;
  const count = make("p", { class: "count", role: "status" });
  const body = make("tbody");
  fill(page, make("h1", {}, phrase`Playing now in ${run}`), count,
    make("p", { class: "quiet" }, "Open an episode to watch it. Looking disturbs no run."),
    scrolled("Live episodes", make("table", {},
      make("thead", {}, make("tr", {}, COLUMNS.map((it) => make("th", { scope: "col", class: FIGURES.has(it) ? "figure" : null }, it)))), body)));

  async function look() {
    const { live, episodes, problem } = await ask("live", { run }, { signal });
    say(count, problem || said(live, episodes.length));
    // Rows stay where they are while a person is on one of them.
    const focused = page.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(body, episodes.map((it) => row(run, it)));
    if (focused) [...body.querySelectorAll("a")].find((it) => it.getAttribute("href") === focused)?.focus();
  }

  await look();
  follow(look, { signal, tell, pause: PAUSE });
}

function said(live, listed) {
  const episodes = live === 1 ? "1 episode is" : `${number(live)} episodes are`;
  return `${episodes} being played${listed < live ? `, the first ${number(listed)} are listed` : ""}.`;
}

function row(run, it) {
  const now = Date.now();
  const since = (then) => seconds(Math.max(Math.round((now - then) / 1000), 0));
  return make("tr", {},
    make("th", { scope: "row" }, make("a", { href: address("/watch", { run, id: it.episode_id }) }, phrase`${it.environment} ${it.item_id}`)),
    make("td", {}, it.policy), make("td", { class: "figure" }, number(it.sample)),
    make("td", { class: "figure" }, number(it.attempt)), make("td", { class: "figure" }, number(it.turn)),
    make("td", {}, it.waits_for), make("td", { class: "figure" }, since(it.since_unix_ms)),
    make("td", { class: "figure" }, since(it.started_unix_ms)));
}

// A live region speaks when its text changes, and only then.
function say(element, text) {
  if (element.textContent !== visible(text)) fill(element, text);
}

// Returns a line for the run's page, and what keeps it up; it is empty unless `isLive()`.
export function playingNow(run, { isLive, signal }) {
  const line = make("p", { class: "playing" });

  async function look() {
    const { live, problem } = isLive() ? await ask("live", { run }, { signal }) : { live: 0, problem: "" };
    const text = live === null ? problem : live ? `playing now: ${live === 1 ? "1 episode" : `${number(live)} episodes`}` : "";
    if (line.textContent !== visible(text)) fill(line, live ? make("a", { href: address("/live", { run }) }, text) : text);
  }

  // What is wrong with the server is said by the page, which asks it, too.
  const quietly = () => look().catch(() => {});
  return { line, keepUp: () => quietly().then(() => follow(quietly, { signal, tell: () => {}, pause: PAUSE })) };
}
