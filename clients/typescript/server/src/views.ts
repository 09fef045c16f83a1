// What a view has to be so that it can be sent (R64, R66).

import type { View } from "./environment.js";

const MAX_VIEWS = 16;
const MAX_VIEW_BYTES = 4 * 1024 * 1024;
const MAX_VIEWS_BYTES = 8 * 1024 * 1024;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** The same views; throws for what no answer may carry. */
export function fitViews(views: readonly View[]): readonly View[] {
  const sizes = views.map(({ content }) => Buffer.byteLength(content));
  const flaws = [
    [views.length < 1 || views.length > MAX_VIEWS, `${views.length} views of a state`],
    [new Set(views.map(({ name }) => name)).size < views.length, "two views of one name"],
    [!views.every(({ name }) => NAME.test(name)), "a view's name is not [a-z][a-z0-9_]*"],
    [!views.every(({ title }) => /^[^\p{C}]{1,200}$/u.test(title)), "a title is no short line"],
    [sizes.some((size) => size > MAX_VIEW_BYTES), `a view has more than ${MAX_VIEW_BYTES} bytes`],
    [sizes.reduce((a, b) => a + b, 0) > MAX_VIEWS_BYTES, `more than ${MAX_VIEWS_BYTES} bytes`],
  ] as const;
  const flaw = flaws.find(([found]) => found);
  if (flaw) throw new Error(flaw[1]);
  return views;
}
