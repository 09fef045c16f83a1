// Elements of a page, and the only place that makes them. Strings become text nodes, never markup:
// what agents and environments wrote is shown and does nothing.

const SVG = "http://www.w3.org/2000/svg";
const SHOWN = new Set(["title", "aria-label"]); // attributes that a person reads
const SVG_TAGS = new Set(["svg", "path", "rect", "line", "circle", "title", "g", "text"]);

// As orchestrator.terminal: C0 and C1 without tab and newline, and the marks that turn the direction
// of text. Shown by their codes, so that a text cannot look like another one.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function visible(text) {
  return String(text).replaceAll("\r\n", "\n").replace(
    CONTROL, (sign) => `\\x${sign.codePointAt(0).toString(16).padStart(2, "0")}`);
}

// Returns an element. Attributes are set as attributes; `onclick` and its like take functions only;
// absent ones (null, undefined, false) are left out.
export function make(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} wants a function`);
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? "" : SHOWN.has(name) ? visible(value) : value);
    }
  }
  put(element, ...children);
  return element;
}

// Returns the pieces of a text of the page's own with recorded values in it: phrase`policy ${it}`.
// Each value stands apart: in a script written from right to left it moves nothing around it.
export function phrase(texts, ...values) {
  return texts.map((text, index) => [text, index < values.length ? make("bdi", {}, values[index]) : null]);
}

// Returns a box that is scrolled sideways where it is too wide for the page; by the keyboard, too.
export function scrolled(label, ...children) {
  return make("div", { class: "wide", role: "region", tabindex: 0, "aria-label": label }, ...children);
}

// Replaces what is in an element.
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
  return element;
}

function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}
