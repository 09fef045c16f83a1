// What the images of an observation have to be so that they can be sent (R67, R68).

import type { Image } from "./environment.js";
import type { Limits } from "./limits.js";

/** How a file of each type begins. */
const BEGINNINGS: Readonly<Record<Image["mediaType"], RegExp>> = {
  "image/png": /^\x89PNG\r\n\x1a\n/,
  "image/jpeg": /^\xff\xd8\xff/,
  "image/webp": /^RIFF[^]{4}WEBP/,
};
const BEGINNING_BYTES = 12;

/** Why images cannot be sent; empty = they can. */
export function imageFlaw(images: readonly Image[], limits: Limits): string {
  if (images.length > limits.maxImages) return `${images.length} images`;
  const sizes = images.map(({ content }) => content.length);
  if (sizes.some((size) => size > limits.maxImageBytes)) return "an image that is too long";
  if (sizes.reduce((a, b) => a + b, 0) > limits.maxImagesBytes) return "images that are too long";
  const isWhatItSays = images.every(({ mediaType, content }) =>
    BEGINNINGS[mediaType].test(Buffer.from(content).toString("latin1", 0, BEGINNING_BYTES)),
  );
  return isWhatItSays ? "" : "an image of another type than it says";
}
