// The environment `echo` of env_servers/environments/echo, observation for observation: it repeats
// what it hears, and misbehaves on request. `node dist/examples/echo.js HOST:PORT [LIMIT=NUMBER...]`

import { setTimeout as sleep } from "node:timers/promises";
import { deflateSync } from "node:zlib";

import {
  ActionFormat,
  DEFAULT_LIMITS,
  EnvironmentServer,
  Grammar,
  InvalidOption,
  StopReason,
  type Advice,
  type Environment,
  type EnvironmentSpec,
  type Image,
  type Limits,
  type Observation,
  type ResetOptions,
  type Task,
  type View,
} from "../src/index.js";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz ";
const ECHOED_CHARS = 64;
const BAR_CHARS = 60;
/** Pixels of an image. */
const LEAST_SIDE = 8;
const FIRST_TASK = 1_000_000;

/** What can be asked of an episode; 0 switches a behaviour off. */
const DEFAULTS = {
  observation_bytes: 600,
  /** Steps until the episode ends. */
  length: 10,
  /** Each step waits so long. */
  sleep_ms: 0,
  /** This step waits for ever. */
  hang_at: 0,
  /** This step throws. */
  crash_at: 0,
  /** Observations count the answers of the process, so that a replay differs. */
  diverge: false,
  /** A view has at least so many bytes. */
  view_bytes: 0,
  /** Every observation has so many images. */
  images: 0,
  /** Each of them has at least so many bytes. */
  image_bytes: 0,
};
type Behaviour = typeof DEFAULTS;
const HIGHEST: Partial<Record<string, number>> = {
  observation_bytes: 16 * 1024 * 1024,
  view_bytes: 16 * 1024 * 1024,
  images: 20,
  image_bytes: 5 * 1024 * 1024,
};

let answers = 0;

class Echo implements Environment {
  private behaviour: Behaviour = DEFAULTS;
  private identity = "";
  private padding = "";
  private steps = 0;

  reset({ itemId, index }: Task, { seed, options }: ResetOptions): Observation {
    this.behaviour = { ...DEFAULTS, ...checked(options) };
    const { view_bytes: _, ...decisive } = this.behaviour;
    this.identity = JSON.stringify([itemId, String(seed), decisive]);
    const shift = Number((BigInt(index) + seed) % BigInt(ALPHABET.length));
    const turned = ALPHABET.slice(shift) + ALPHABET.slice(0, shift);
    const size = this.behaviour.observation_bytes;
    this.padding = turned.repeat(Math.ceil(size / turned.length)).slice(0, size);
    const text = this.padded(`This is ${itemId}. Say something. `);
    return { text, images: this.images() };
  }

  step(action: string, signal: AbortSignal): Observation | Promise<Observation> {
    const { sleep_ms, hang_at, crash_at } = this.behaviour;
    this.steps++;
    if (this.steps === crash_at) throw new Error(`echo was asked to crash at step ${this.steps}`);
    if (this.steps === hang_at) return new Promise(() => {});
    const answer = (): Observation => this.answer(action);
    return sleep_ms ? sleep(sleep_ms, undefined, { signal }).then(answer, answer) : answer();
  }

  fork(): Echo {
    return Object.assign(new Echo(), this);
  }

  fingerprint(): string {
    return `${this.steps} ${this.identity}`;
  }

  adviseExpert(seed: bigint): Advice {
    const next = this.steps + 1;
    const thoughts = [
      `The echo has heard ${this.steps} messages so far; I send the next one.`,
      `After ${this.steps} messages there is still something to say.`,
      `Message ${next} follows.`,
    ];
    return { action: `message ${next}`, thought: thoughts[Number(seed % 3n)] ?? "" };
  }

  render(): View[] {
    const { length, view_bytes } = this.behaviour;
    const bar =
      "#".repeat(Math.min(this.steps, BAR_CHARS)) +
      ".".repeat(Math.max(0, Math.min(length - this.steps, BAR_CHARS)));
    const text = `step ${this.steps} of ${length || "any number"}\n${bar}\n`;
    const content = text.padEnd(view_bytes);
    return [{ name: "steps", title: "Steps", mediaType: "text/plain", content }];
  }

  private answer(action: string): Observation {
    const heard = pythonAscii([...action].slice(0, ECHOED_CHARS).join(""));
    const text = this.padded(`Step ${this.steps}, you said: ${heard}. `);
    const images = this.images();
    if (this.steps !== this.behaviour.length) return { text, images };
    const stopReason = action ? StopReason.GOAL_REACHED : StopReason.GOAL_FAILED;
    return { text, images, reward: action ? 1 : 0, terminated: true, stopReason };
  }

  private images(): Image[] {
    const { images, image_bytes } = this.behaviour;
    const side = Math.max(Math.ceil(Math.sqrt(image_bytes)), LEAST_SIDE);
    return Array.from({ length: images }, (_, place) => {
      const gray = (this.steps * 16 + place) % 256;
      return { mediaType: "image/png", content: pngSquare(side, gray) };
    });
  }

  private padded(head: string): string {
    const whole = this.behaviour.diverge ? `Answer ${answers++} of this process. ${head}` : head;
    return (whole + this.padding.slice(whole.length)).slice(0, this.padding.length);
  }
}

function checked(options: ResetOptions["options"]): Partial<Behaviour> {
  for (const [name, value] of Object.entries(options)) {
    const highest = HIGHEST[name] ?? 1e9;
    const isWhole = Number.isInteger(value) || name === "sleep_ms";
    const isFit = typeof value === "number" && isWhole && value >= 0 && value <= highest;
    if (name === "diverge" ? typeof value !== "boolean" : !isFit) {
      const valid = name === "diverge" ? "true, false" : `a number from 0 to ${highest}`;
      throw new InvalidOption(`option ${name} is ${JSON.stringify(value)}`, valid);
    }
  }
  return options;
}

/** A PNG of one gray, not compressed. */
function pngSquare(side: number, gray: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header[8] = 8; // bits of a pixel; all else is 0: gray, not interlaced
  const rows = Buffer.alloc(side * (side + 1), gray);
  for (let row = 0; row < side; row++) rows[row * (side + 1)] = 0; // no filter
  const chunks = [
    ["IHDR", header],
    ["IDAT", deflateSync(rows, { level: 0 })],
    ["IEND", Buffer.alloc(0)],
  ] as const;
  const written = chunks.flatMap(([name, data]) => {
    const named = Buffer.concat([Buffer.from(name), data]);
    return [uint32(data.length), named, uint32(crc32(named))];
  });
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), ...written]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** As PNG has it; Node's own is there from 22 on. */
function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

/** What Python's `ascii` makes of a text. */
function pythonAscii(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const named: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  const escaped = [...text].map((character) => {
    if (character === "\\" || character === quote) return `\\${character}`;
    const point = character.codePointAt(0) ?? 0;
    if (point >= 0x20 && point < 0x7f) return character;
    const hex = point.toString(16);
    if (point > 0xffff) return `\\U${hex.padStart(8, "0")}`;
    if (point > 0xff) return `\\u${hex.padStart(4, "0")}`;
    return named[character] ?? `\\x${hex.padStart(2, "0")}`;
  });
  return quote + escaped.join("") + quote;
}

const RULES =
  "You talk to an echo. After each of your messages it tells you how many messages it has heard " +
  "and repeats the beginning of the last one. Keep talking until it has heard enough; your last " +
  "message must not be empty.\n";

export const echo: EnvironmentSpec = {
  name: "echo",
  version: "1",
  description: "Repeats what it hears; for benchmarks, conformance and faults on request.",
  splits: {
    train: { first: FIRST_TASK, size: 10_000 },
    eval: { first: FIRST_TASK + 10_000, size: 1_000 },
  },
  category: () => "echo",
  grammar: new Grammar(
    [
      {
        name: "say",
        description: "Say something to the echo.",
        parameters: { text: { type: "string", description: "What to say." } },
        render: ({ text }) => String(text),
      },
    ],
    (text) => ["say", { text }],
  ),
  conversationStarts: [
    [
      ActionFormat.REACT,
      {
        instruction: `${RULES}Write your reply as\n\nThought:\nwhy you say it\n\nAction:\nwhat you say`,
      },
    ],
    [
      ActionFormat.FUNCTION_CALLING,
      {
        instruction:
          `${RULES}Reply with one JSON object: {"thought": why, "function_name": "say", ` +
          '"arguments": {"text": what you say}}',
      },
    ],
    [
      ActionFormat.CODE_AS_ACTION,
      {
        instruction:
          `${RULES}Reply with one python block that calls say(text="what you say"); ` +
          "put your thoughts in its comments.",
      },
    ],
  ],
  maxRounds: 20,
  hasImages: true,
  options: Object.keys(DEFAULTS),
  create: () => new Echo(),
};

const [address = "127.0.0.1:50051", ...wanted] = process.argv.slice(2);
const limits: Partial<Limits> = {};
for (const each of wanted) {
  const [name = "", value] = each.split("=");
  if (!(name in DEFAULT_LIMITS)) throw new Error(`no limit is called ${name}`);
  limits[name as keyof Limits] = Number(value);
}
const { AGENTGYM_TOKEN: token, AGENTGYM_OTHER_TOKEN: other } = process.env;
const { AGENTGYM_OPERATOR_TOKEN: operator } = process.env;
const server = await EnvironmentServer.start([echo], {
  address,
  limits,
  ...(token && { token }),
  tokens: {
    ...(other && { other: { token: other, scopes: ["play"] } }),
    ...(operator && { operator: { token: operator, scopes: ["operate"] } }),
  },
});
console.log(`echo is served on ${server.address}, process ${process.pid}`);
process.once("SIGTERM", () => void server.drain());
