// Which page an address shows. Links within the viewer change the page without loading it anew.

import { showComparison } from "./compare_page.js";
import { fill, make, visible } from "./elements.js";
import { showEpisode } from "./episode_page.js";
import { showEpisodes } from "./episodes_page.js";
import { showLive } from "./live_page.js";
import { showPlay } from "./play_page.js";
import { showRun } from "./run_page.js";
import { showRuns } from "./runs_page.js";
import { address } from "./server.js";
import { showSideBySide } from "./side_by_side_page.js";
import { showTraining } from "./training_page.js";
import { showWatch } from "./watch_page.js";

const PAGES = {
  "/": { show: showRuns, title: "Runs" },
  "/run": { show: showRun, title: "Run" },
  "/episodes": { show: showEpisodes, title: "Episodes" },
  "/training": { show: showTraining, title: "Training", ofRuns: true },
  "/compare": { show: showComparison, title: "Comparison", ofRuns: true },
  "/episode": { show: showEpisode, title: "Episode" },
  "/play": { show: showPlay, title: "Play", ofRuns: true },
  "/side-by-side": { show: showSideBySide, title: "Side by side", ofRuns: true },
  "/live": { show: showLive, title: "Playing now" },
  "/watch": { show: showWatch, title: "Live episode" },
};
const page = document.getElementById("page");
const news = document.getElementById("news");
let leaving = new AbortController();

export function go(target, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", target);
  show();
}

function show() {
  // Whatever the page before still waits for or listens to ends with it.
  leaving.abort();
  leaving = new AbortController();
  const parameters = Object.fromEntries(new URLSearchParams(location.search));
  const { show: showPage, title } = PAGES[location.pathname];
  const named = parameters.run ?? parameters.training;
  document.title = named ? `${title} – ${visible(named)}` : title;
  fill(document.getElementById("path"), path(parameters));
  news.textContent = "";
  fill(page);
  const context = { page, parameters, go, tell, signal: leaving.signal };
  Promise.resolve(showPage(context)).catch((error) => report(error, context.signal));
  page.focus({ preventScroll: true });
}

function path({ run, id, ...filters }) {
  const parts = [make("a", { href: "/" }, "Runs")];
  const { title, ofRuns } = PAGES[location.pathname];
  if (ofRuns) parts.push(make("span", {}, title));
  else if (run) parts.push(make("a", { href: address("/run", { run }) }, run));
  if (run && !ofRuns && location.pathname !== "/run") {
    delete filters.turn;
    delete filters.tokens;
    parts.push(make("a", { href: address("/episodes", { run, ...filters }) }, "Episodes"));
  }
  if (id) parts.push(make("span", {}, id.slice(0, 12)));
  parts.at(-1).setAttribute("aria-current", "page");
  return parts.flatMap((part, index) => index ? [make("span", { "aria-hidden": "true" }, "/"), part] : [part]);
}

function tell(text) {
  news.textContent = text;
}

function report(error, signal) {
  if (signal.aborted) return;
  fill(page, make("p", { class: "problem", role: "alert" }, error.message));
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !plain || link.target || link.hasAttribute("download") || event.defaultPrevented) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || !(target.pathname in PAGES)) return;
  event.preventDefault();
  const within = target.pathname + target.search === location.pathname + location.search;
  if (within && target.hash) document.getElementById(target.hash.slice(1))?.scrollIntoView();
  else go(target.pathname + target.search);
});
window.addEventListener("popstate", show);
show();
