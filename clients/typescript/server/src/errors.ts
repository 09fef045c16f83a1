// Errors of commands: what docs/protocol.md's table says of each reason.

import { create } from "@bufbuild/protobuf";
import { anyPack, durationFromMs } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema, type Status } from "./gen/google/rpc/status_pb.js";

const DOMAIN = "agentgym.env";
/** Of a message or metadata value: errors quote what clients sent. */
const MAX_CHARS = 2000;

type Fault = "AGENT" | "ENVIRONMENT" | "INFRASTRUCTURE";

const RULES = {
  SEQ_GAP: [Code.FAILED_PRECONDITION, "AGENT", false],
  SEQ_CONFLICT: [Code.ABORTED, "AGENT", false],
  EPISODE_BUSY: [Code.FAILED_PRECONDITION, "AGENT", true],
  EPISODE_NOT_FOUND: [Code.NOT_FOUND, "INFRASTRUCTURE", false],
  EPISODE_ENDED: [Code.FAILED_PRECONDITION, "AGENT", false],
  RESPONSE_EVICTED: [Code.OUT_OF_RANGE, "AGENT", false],
  UNKNOWN_ENVIRONMENT: [Code.NOT_FOUND, "AGENT", false],
  UNKNOWN_ITEM: [Code.NOT_FOUND, "AGENT", false],
  UNKNOWN_SPLIT: [Code.NOT_FOUND, "AGENT", false],
  UNKNOWN_OPTION: [Code.INVALID_ARGUMENT, "AGENT", false],
  UNSUPPORTED_ACTION_FORMAT: [Code.INVALID_ARGUMENT, "AGENT", false],
  UNSUPPORTED_CAPABILITY: [Code.UNIMPLEMENTED, "AGENT", false],
  UNSUPPORTED_VERB: [Code.UNIMPLEMENTED, "AGENT", false],
  CONTRACT_REVISION_UNSUPPORTED: [Code.UNIMPLEMENTED, "AGENT", false],
  INVALID_ARGUMENT: [Code.INVALID_ARGUMENT, "AGENT", false],
  TEXT_TOO_LONG: [Code.INVALID_ARGUMENT, "AGENT", false],
  CAPACITY_EXHAUSTED: [Code.RESOURCE_EXHAUSTED, "INFRASTRUCTURE", true],
  CLIENT_LIMIT: [Code.RESOURCE_EXHAUSTED, "AGENT", true],
  CREDITS_EXCEEDED: [Code.RESOURCE_EXHAUSTED, "AGENT", true],
  DEADLINE_EXCEEDED: [Code.DEADLINE_EXCEEDED, "INFRASTRUCTURE", true],
  CANCELLED: [Code.CANCELLED, "AGENT", true],
  ENVIRONMENT_CRASHED: [Code.INTERNAL, "ENVIRONMENT", false],
  ENVIRONMENT_HUNG: [Code.INTERNAL, "ENVIRONMENT", false],
  REPLAY_DIVERGED: [Code.DATA_LOSS, "ENVIRONMENT", false],
  DRAINING: [Code.UNAVAILABLE, "INFRASTRUCTURE", true],
  UNAUTHENTICATED: [Code.UNAUTHENTICATED, "AGENT", false],
} as const satisfies Record<string, readonly [Code, Fault, retriable: boolean]>;

export type Reason = keyof typeof RULES;

/** Thrown where a command is answered with an error; it concerns that command alone. */
export class CommandError extends Error {
  readonly metadata: Readonly<Record<string, string>>;

  constructor(
    readonly reason: Reason,
    message: string,
    metadata: Readonly<Record<string, string | number>> = {},
    /** After which the same command may succeed. */
    readonly retryAfterMs?: number,
  ) {
    super(message.slice(0, MAX_CHARS).toWellFormed());
    this.name = "CommandError";
    const bounded = Object.entries(metadata).map(([key, value]) => [
      key,
      String(value).slice(0, MAX_CHARS).toWellFormed(),
    ]);
    this.metadata = Object.fromEntries(bounded);
  }

  get code(): Code {
    return RULES[this.reason][0];
  }

  /** The error as it travels. */
  toStatus(): Status {
    const [code, fault, retriable] = RULES[this.reason];
    const metadata = { ...this.metadata, fault, retriable: String(retriable) };
    const info = create(ErrorInfoSchema, { reason: this.reason, domain: DOMAIN, metadata });
    const details = [anyPack(ErrorInfoSchema, info)];
    if (this.retryAfterMs !== undefined) {
      const retryDelay = durationFromMs(this.retryAfterMs);
      details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
    }
    return create(StatusSchema, { code, message: this.message, details });
  }
}

export function seqGap(episodeId: string, expected: number, detail: string): CommandError {
  return new CommandError("SEQ_GAP", `episode ${episodeId}: ${detail}`, { expected });
}

export function seqConflict(episodeId: string, detail: string): CommandError {
  return new CommandError("SEQ_CONFLICT", `episode ${episodeId} ${detail}`);
}

export function invalidArgument(field: string, message: string): CommandError {
  return new CommandError("INVALID_ARGUMENT", message, { field });
}

export function textTooLong(what: string, limit: number): CommandError {
  return new CommandError("TEXT_TOO_LONG", `${what} may have ${limit} bytes`, { limit });
}

export function lacksCapability(message: string, capability: string): CommandError {
  return new CommandError("UNSUPPORTED_CAPABILITY", message, { capability });
}

export function episodeBusy(episodeId: string, inFlight: number): CommandError {
  return new CommandError("EPISODE_BUSY", `episode ${episodeId} executes seq ${inFlight}`, {
    in_flight: inFlight,
  });
}

export function beingOpened(episodeId: string): CommandError {
  return new CommandError("EPISODE_BUSY", `episode ${episodeId} is being opened`);
}

export function diverged(message: string, atSeq: number): CommandError {
  return new CommandError("REPLAY_DIVERGED", message, { at_seq: atSeq });
}

export function gaveUp(reason: "CANCELLED" | "DEADLINE_EXCEEDED", episodeId: string): CommandError {
  const message = `a command of episode ${episodeId} goes on: sent again, it gets its one result`;
  return new CommandError(reason, message, { may_have_been_applied: "true" });
}

export function unknown(
  reason: "UNKNOWN_ENVIRONMENT" | "UNKNOWN_ITEM" | "UNKNOWN_SPLIT" | "UNKNOWN_OPTION",
  message: string,
  valid: string,
): CommandError {
  return new CommandError(reason, message, { valid: valid || "none" });
}
