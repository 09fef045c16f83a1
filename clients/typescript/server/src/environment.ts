// What the author of an environment writes: what it is called, which tasks it has, and one object
// for each episode with `reset` and `step`. Everything else is the server's.

import type { JsonObject } from "@bufbuild/protobuf";

import type { Grammar } from "./grammar.js";
import { ActionFormat, StopReason } from "./gen/agentgym/env/v1/types_pb.js";
import { Metric } from "./gen/agentgym/env/v1/environment_pb.js";

export { ActionFormat, Metric, StopReason };

/** One task: the integer of its item id is all that the server knows of it. */
export interface Task {
  /** `<environment>_<index>`. */
  readonly itemId: string;
  readonly index: number;
}

/** A set of tasks in a row: `size` of them from `first` on. */
export interface Split {
  readonly first: number;
  readonly size: number;
}

/** How a client wants an episode to be. */
export interface ResetOptions {
  readonly seed: bigint;
  readonly profile: string;
  /** Only names that the environment lists; their values are for it to check (InvalidOption). */
  readonly options: Readonly<JsonObject>;
}

/** What the agent itself sees beside the text; rules R67 and R68 of the protocol. */
export interface Image {
  mediaType: "image/png" | "image/jpeg" | "image/webp";
  content: Uint8Array;
}

/** What a reset or a step shows. */
export interface Observation {
  text: string;
  /** Absent = not scored, which is not 0. */
  reward?: number;
  /** What the episode would score if it ended here; only with `hasScore`. */
  score?: number;
  /** The task is over by its own rules; with a stop reason. */
  terminated?: boolean;
  /** A limit of the environment cut the episode off; with a stop reason. */
  truncated?: boolean;
  stopReason?: StopReason;
  /** Only with `hasImages`; they are sent to clients that take them. */
  images?: readonly Image[];
  /** Extras that no client needs to understand. */
  info?: JsonObject;
}

/** What a scripted player would do. */
export interface Advice {
  /** A native action. */
  action: string;
  /** A short true reason for it. */
  thought?: string;
}

/** A picture of a state: the rules are R64 to R66 of the protocol. */
export interface View {
  name: string;
  title: string;
  mediaType: "image/png" | "image/svg+xml" | "text/html" | "text/plain" | "application/json";
  content: string | Uint8Array;
}

/**
 * One episode. A step that waits (I/O, another process) returns a promise; one that computes blocks
 * every other episode of the process meanwhile. Methods that are not there are capabilities that
 * the environment lacks.
 */
export interface Environment {
  reset(task: Task, options: ResetOptions): Observation | Promise<Observation>;
  /** `signal` is aborted where nobody waits any more; what is returned counts all the same. */
  step(action: string, signal: AbortSignal): Observation | Promise<Observation>;
  /** A copy in the same state; without it the server plays the journal again. */
  fork?(): Environment;
  /** All that decides about the future; without it states are told apart by what was seen. */
  fingerprint?(): string;
  /** Capability EXPERT. */
  adviseExpert?(seed: bigint): Advice;
  adviseRandom?(seed: bigint): Advice;
  /** Without it: the empty action. */
  adviseNoop?(): Advice;
  /** Capability RENDER. */
  render?(): readonly View[];
  close?(): void;
}

/** How a conversation with the environment opens, in one action format. */
export interface ConversationStart {
  instruction: string;
  /** What the model is made to answer; default: that it will follow the instructions. */
  acknowledgement?: string;
}

/** An environment as it is served. */
export interface EnvironmentSpec {
  readonly name: string;
  /** Changes when observations, rewards or tasks change. */
  readonly version: string;
  readonly description: string;
  readonly splits: Readonly<Record<string, Split>>;
  /** Task type of an item, for tables. */
  category?(index: number): string;
  readonly grammar: Grammar;
  /** The formats that are spoken, in order of preference. */
  readonly conversationStarts: readonly (readonly [ActionFormat, ConversationStart])[];
  readonly maxRounds: number;
  /** Default: SUCCESS_RATE at a score of 1. */
  readonly metric?: Metric;
  readonly successScore?: number;
  /** The same reset and actions give the same states; default true. */
  readonly deterministic?: boolean;
  /** Observations carry `score`; default false. */
  readonly hasScore?: boolean;
  /** Observations can have images, where an option asks for them; default false. */
  readonly hasImages?: boolean;
  /** Names of options. */
  readonly options?: readonly string[];
  /** The first is the default; default: one, `default`. */
  readonly profiles?: readonly [string, ...string[]];
  /** A fresh episode, before its reset. Cheap: the server makes one to see what it can do. */
  create(): Environment;
}

/** Thrown by `reset` for an option with an impossible value. */
export class InvalidOption extends Error {
  constructor(
    message: string,
    /** What would have been right. */
    readonly valid: string,
  ) {
    super(message);
    this.name = "InvalidOption";
  }
}
