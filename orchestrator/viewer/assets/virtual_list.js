// A list of any length, of which only the rows around what is seen are in the page.

import { make } from "./elements.js";

const ROW = 28; // pixels, as in style.css
const PAGE = 100; // rows that are asked for at once
const KEPT = 12; // pages that are remembered
const AROUND = 10; // rows beyond what is seen

export class VirtualList {
  // `load(offset, limit)` gives rows, `row(it)` the cells of one, `open(it)` is what Enter does.
  constructor({ columns, load, row, open, failed }) {
    Object.assign(this, { columns, load, row, open, failed });
    this.total = 0;
    this.pages = new Map();
    this.current = 0;
    this.inner = make("div", { class: "rows", role: "presentation" });
    this.element = make("div", {
      class: "scroll", role: "rowgroup", tabindex: "0", "aria-label": "Rows: arrow keys move, Enter opens",
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
    }, this.inner);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // Shows a list of `total` rows that begins with `rows`.
  show(total, rows) {
    this.total = total;
    this.pages = new Map([[0, rows]]);
    this.current = Math.min(this.current, Math.max(total - 1, 0));
    this.inner.style.height = `${total * ROW}px`;
    this.element.closest("[role=table]")?.setAttribute("aria-rowcount", total + 1);
    this.draw();
  }

  draw() {
    const first = Math.max(Math.floor(this.element.scrollTop / ROW) - AROUND, 0);
    const seen = Math.ceil(this.element.clientHeight / ROW) + 2 * AROUND;
    const last = Math.min(first + seen, this.total);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.draw_row(index));
    this.inner.replaceChildren(...rows);
  }

  draw_row(index) {
    const it = this.at(index);
    const row = make("div", {
      role: "row", class: `row${index === this.current ? " current" : ""}`, "aria-rowindex": index + 2,
      "aria-busy": it ? null : "true", onclick: () => { this.current = index; this.draw(); },
      ondblclick: () => it && this.open(it),
    }, it ? this.row(it) : "…");
    row.style.top = `${index * ROW}px`;
    return row;
  }

  // Returns a row; asks for it where it is not there yet.
  at(index) {
    const number = Math.floor(index / PAGE);
    const page = this.pages.get(number);
    if (page === undefined) {
      this.fetch(number);
      return undefined;
    }
    return page?.[index % PAGE];
  }

  async fetch(number) {
    const { pages } = this;
    pages.set(number, null);
    // The first page is the one that tells what is new.
    for (const old of pages.keys()) {
      if (pages.size <= KEPT) break;
      if (old !== number) pages.delete(old);
    }
    try {
      pages.set(number, await this.load(number * PAGE, PAGE));
    } catch (error) {
      pages.delete(number);
      this.failed(error);
      return;
    }
    if (pages === this.pages) this.draw();
  }

  key(event) {
    const page = Math.max(Math.floor(this.element.clientHeight / ROW) - 1, 1);
    const steps = {
      ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page,
      Home: -this.total, End: this.total,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") {
      const it = this.at(this.current);
      if (it && event.target === this.element) this.open(it);
      return;
    }
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.current = Math.min(Math.max(this.current + steps[event.key], 0), Math.max(this.total - 1, 0));
    const top = this.current * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    this.draw();
  }
}
