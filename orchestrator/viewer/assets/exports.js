// Saves a run or an episode in a format of `orchestrator.export`.

import { make } from "./elements.js";
import { address } from "./server.js";

// `what` names a run, or an episode of it; `formats` are those that the server writes.
export function saving(what, formats) {
  const link = make("a", { download: "" }, "Save as");
  const format = make("select", { "aria-label": "Format", onchange: choose },
    formats.map((it) => make("option", { value: it }, it)));
  const successes = what.id ? null : make("input", { type: "checkbox", id: "only-success", onchange: choose });

  function choose() {
    link.setAttribute("href", address("/api/export", { ...what, format: format.value, only_success: successes?.checked ? "1" : "" }));
  }

  choose();
  return make("span", { class: "field" }, link, format,
    successes ? [successes, make("label", { for: "only-success" }, "successes only")] : null);
}
