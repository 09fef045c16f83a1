// An episode on a server: reset, step, and surviving the loss of that server.
//
// It keeps its inputs (the journal) and the state hash after each. Where the server no longer knows
// the episode it is opened again with the journal; every hash must come out again (R26, R27).

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import type { Connection } from "./connection.js";
import { AgentGymError } from "./errors.js";
import {
  Advisor,
  CommandSchema,
  type Advice,
  type Event,
  type JournalEntrySchema,
  type ResetSchema,
} from "./gen/agentgym/env/v1/environment_pb.js";
import { ActionFormat, type StopReason } from "./gen/agentgym/env/v1/types_pb.js";

/** Rebuilds without a step between them. */
const MAX_REBUILDS = 8;
/** How long a command is refused for want of room before its error is thrown. */
const PATIENCE_MS = 60_000;
const WAIT_MS = 500;
const WORTH_WAITING: ReadonlySet<string> = new Set([
  "CAPACITY_EXHAUSTED",
  "CREDITS_EXCEEDED",
  "DRAINING",
]);

type Body = NonNullable<MessageInitShape<typeof CommandSchema>["body"]>;
type Step = Extract<Body, { case: "action" | "reply" | "toolCall" }>;

/** What to open; `environment` and `itemId` say which task. */
export type Task = Omit<
  MessageInitShape<typeof ResetSchema>,
  "$typeName" | "$unknown" | "journal" | "initialStateHash"
>;

/** What a reset or a step led to. */
export interface Transition {
  seq: bigint;
  observation: string;
  /** Absent = not scored; never 0 for a failure. */
  reward: number | undefined;
  /** What the episode would score if it ended here. */
  score: number | undefined;
  terminated: boolean;
  truncated: boolean;
  /** Whether the episode takes no more steps. */
  ended: boolean;
  stopReason: StopReason;
  /** The native action that the server read in a reply; absent when it was unreadable. */
  parsedAction: string | undefined;
}

/** One episode; one call at a time. */
export class Episode {
  /** Nobody can guess it. */
  readonly id = randomUUID();
  /** The state it is in: the number of its steps. */
  seq = -1n;
  /** Times that it was opened again with its journal. */
  rebuilds = 0;

  private rebuildsInARow = 0;
  private readonly journal: MessageInitShape<typeof JournalEntrySchema>[] = [];
  private initialStateHash: Uint8Array | undefined;

  private constructor(
    private readonly connection: Connection,
    private readonly task: Task,
  ) {}

  /** Open an episode of a task; throws AgentGymError, ConnectionLost. */
  static async open(connection: Connection, task: Task): Promise<[Episode, Transition]> {
    const episode = new Episode(connection, task);
    const event = await episode.command(0n, { case: "reset", value: task });
    episode.initialStateHash = event.stateHash;
    episode.seq = 0n;
    connection.register(episode);
    return [episode, toTransition(event)];
  }

  /** Apply a native action. */
  step(action: string): Promise<Transition> {
    return this.apply({ case: "action", value: action });
  }

  /** Apply a model's whole reply; the server reads the action in it. */
  stepReply(reply: string, format = ActionFormat.UNSPECIFIED): Promise<Transition> {
    return this.apply({ case: "reply", value: reply }, format);
  }

  /** Apply a function call; `argumentsJson` is a JSON object. */
  stepCall(name: string, argumentsJson: string): Promise<Transition> {
    return this.apply({ case: "toolCall", value: { name, argumentsJson } });
  }

  /** Ask a scripted player what it would do in this state; changes nothing. */
  async advice(advisor = Advisor.EXPERT, seed = 0n): Promise<Advice> {
    const event = await this.command(this.seq, { case: "consult", value: { advisor, seed } });
    if (event.body.case !== "advice") throw unexpected(event, "advice");
    return event.body.value;
  }

  /** Keep the server from ending an episode whose agent thinks for minutes. */
  async heartbeat(): Promise<void> {
    await this.command(this.seq, { case: "heartbeat", value: {} });
  }

  /** End the episode on the server. */
  async close(): Promise<void> {
    this.connection.unregister(this);
    await this.command(this.seq, { case: "close", value: {} });
  }

  private async apply(step: Step, actionFormat = ActionFormat.UNSPECIFIED): Promise<Transition> {
    const seq = this.seq + 1n;
    const event = await this.command(seq, step, actionFormat);
    this.journal.push({ input: { input: step, actionFormat }, stateHash: event.stateHash });
    this.seq = seq;
    return toTransition(event);
  }

  /** Send a command until it is answered, through losses of streams and servers. */
  private async command(seq: bigint, body: Body, actionFormat?: ActionFormat): Promise<Event> {
    const until = Date.now() + PATIENCE_MS;
    for (;;) {
      const event = await this.send(seq, body, actionFormat);
      if (event.body.case !== "error") {
        this.rebuildsInARow = 0;
        return event;
      }
      const error = AgentGymError.fromStatus(event.body.value);
      if (body.case !== "reset" && this.isBehind(error) && this.rebuildsInARow < MAX_REBUILDS) {
        await this.rebuild(error, until);
      } else {
        await waitFor(error, until);
      }
    }
  }

  private send(seq: bigint, body: Body, actionFormat = ActionFormat.UNSPECIFIED): Promise<Event> {
    return this.connection.exchange(
      create(CommandSchema, { episodeId: this.id, seq, body, actionFormat }),
    );
  }

  /** Whether the server does not know the episode, or only an older state of it. */
  private isBehind(error: AgentGymError): boolean {
    if (error.reason === "EPISODE_NOT_FOUND") return true;
    return error.reason === "SEQ_GAP" && BigInt(error.metadata["expected"] ?? 0) <= this.seq;
  }

  /** Open the episode again where it was; the server checks every hash. */
  private async rebuild(lost: AgentGymError, until: number): Promise<void> {
    this.rebuilds++;
    this.rebuildsInARow++;
    const { journal, initialStateHash } = this;
    const value = { ...this.task, journal, ...(initialStateHash && { initialStateHash }) };
    for (;;) {
      const event = await this.send(this.seq, { case: "reset", value });
      if (event.body.case !== "error") return;
      const error = AgentGymError.fromStatus(event.body.value);
      // An environment that is not deterministic: the episode is gone.
      if (error.reason === "UNSUPPORTED_CAPABILITY") throw lost;
      await waitFor(error, until);
    }
  }
}

/** Wait where that can help, else throw the error. */
async function waitFor(error: AgentGymError, until: number): Promise<void> {
  const delay = error.retryAfterMs ?? WAIT_MS;
  if (!WORTH_WAITING.has(error.reason) || Date.now() + delay > until) throw error;
  await sleep(delay);
}

function toTransition(event: Event): Transition {
  if (event.body.case !== "observation") throw unexpected(event, "an observation");
  const { seq, reward, score, terminated, truncated, stopReason, parsedAction } = event;
  const observation = event.body.value;
  const ended = terminated || truncated;
  return { seq, observation, reward, score, terminated, truncated, ended, stopReason, parsedAction };
}

function unexpected(event: Event, expected: string): Error {
  return new Error(`the server answered with ${event.body.case}, not ${expected}`);
}
