// What changed between two texts, by words.

const MOST = 1200; // words of each: the table of their comparison has the product of both

// Returns pieces of `now` in order: { text, isNew }; null where the texts are too long to compare.
export function compare(before, now) {
  const [old, words] = [split(before), split(now)];
  let head = 0;
  while (head < old.length && head < words.length && old[head] === words[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < words.length - head
    && old[old.length - 1 - tail] === words[words.length - 1 - tail]) tail += 1;
  const [from, to] = [old.slice(head, old.length - tail), words.slice(head, words.length - tail)];
  if (from.length > MOST || to.length > MOST) return null;
  const pieces = [];
  add(pieces, words.slice(0, head).join(""), false);
  middle(from, to, pieces);
  add(pieces, words.slice(words.length - tail).join(""), false);
  return pieces;
}

function split(text) {
  return text.match(/\s+|[^\s]+/g) ?? [];
}

function middle(old, words, pieces) {
  const width = words.length + 1;
  // lengths[i * width + j]: of the longest common sequence of old[i:] and words[j:].
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = words.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = old[i] === words[j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (j < words.length) {
    if (i < old.length && old[i] === words[j]) {
      add(pieces, words[j], false);
      i += 1;
      j += 1;
    } else if (i < old.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      i += 1;
    } else {
      add(pieces, words[j], true);
      j += 1;
    }
  }
}

function add(pieces, text, isNew) {
  if (!text) return;
  const last = pieces.at(-1);
  if (last && last.isNew === isNew) last.text += text;
  else pieces.push({ text, isNew });
}
