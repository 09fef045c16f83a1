// A live environment with the hash of its state and what it last showed. Whatever its author's code
// throws becomes ENVIRONMENT_CRASHED here, whatever does not come back ENVIRONMENT_HUNG.

import { createHash } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";

import {
  InvalidOption,
  type Advice,
  type Environment,
  type EnvironmentSpec,
  type Observation,
  type ResetOptions,
  type Task,
  type View,
} from "./environment.js";
import { CommandError, diverged, lacksCapability, unknown } from "./errors.js";
import { Advisor } from "./gen/agentgym/env/v1/environment_pb.js";
import type { ActionFormat } from "./gen/agentgym/env/v1/types_pb.js";
import { UNREADABLE } from "./grammar.js";
import { imageFlaw } from "./images.js";
import { sameBytes, type StepInput } from "./inputs.js";
import { MAX_OBSERVATION_BYTES, type Limits } from "./limits.js";
import { fitViews } from "./views.js";

/** What a reset or a step led to. */
export interface Result {
  readonly observation: Observation;
  readonly stateHash: Uint8Array;
  /** Absent for a reset, and where no action could be read. */
  readonly parsedAction: string | undefined;
}

/** How an episode begins. */
export interface Opening {
  readonly task: Task;
  readonly options: ResetOptions;
  readonly format: ActionFormat;
  /** The client takes images. */
  readonly images: boolean;
}

const HASH_BYTES = 8;
/** Steps of a journal between which other episodes have their turn. */
const REPLAYED_IN_A_ROW = 256;

export class Game {
  private last: Result | undefined;
  /** Ends the step in flight early, where the environment listens. */
  private stop = new AbortController();

  private constructor(
    readonly spec: EnvironmentSpec,
    private readonly environment: Environment,
    private readonly limits: Limits,
  ) {}

  /**
   * Begin an episode and play a journal; the results of every seq, from 0 on. `hashes` are by seq,
   * empty ones are not checked. Rejects with CommandError.
   */
  static async open(
    spec: EnvironmentSpec,
    opening: Opening,
    journal: readonly StepInput[],
    hashes: readonly Uint8Array[],
    limits: Limits,
  ): Promise<[Game, Result[]]> {
    const game = new Game(spec, spec.create(), limits);
    try {
      const first = game.guarded(() => game.environment.reset(opening.task, opening.options));
      const results = [game.record(await first, undefined)];
      game.requireHash(results[0], hashes[0], 0);
      for (const [at, input] of journal.entries()) {
        if (at % REPLAYED_IN_A_ROW === REPLAYED_IN_A_ROW - 1) await turn();
        const result = await game.step(input);
        results.push(result);
        game.requireHash(result, hashes[at + 1], at + 1);
      }
      return [game, results];
    } catch (error) {
      game.close();
      throw error;
    }
  }

  /** Apply an input; a promise only where the environment makes one. */
  step(input: StepInput): Result | Promise<Result> {
    const { grammar } = this.spec;
    if (this.stop.signal.aborted) this.stop = new AbortController();
    const { signal } = this.stop;
    const action =
      input.kind === "action"
        ? input.text
        : input.kind === "reply"
          ? this.parsed(() => grammar.read(input.text, input.format))
          : this.parsed(() => grammar.readToolCall(input.name, input.text));
    if (action === UNREADABLE) {
      const text = `Invalid Action.\n\n${this.last?.observation.text ?? ""}`;
      const { score } = this.last?.observation ?? {};
      return this.record({ text, ...(score !== undefined && { score }) }, undefined);
    }
    const stepped = this.guarded(() => this.environment.step(action, signal));
    return stepped instanceof Promise
      ? stepped.then((observation) => this.record(observation, action))
      : this.record(stepped, action);
  }

  /** A copy in the same state; undefined where the environment cannot make one. */
  fork(): Game | undefined {
    const { environment } = this;
    if (!environment.fork) return undefined;
    const copy = this.called(() => environment.fork?.() as Environment);
    const game = new Game(this.spec, copy, this.limits);
    game.last = this.last;
    return game;
  }

  advise(advisor: Advisor, seed: bigint): Advice {
    const { environment, spec } = this;
    switch (advisor) {
      case Advisor.EXPERT:
        if (!environment.adviseExpert) throw lacksCapability(`${spec.name} has no expert`, "EXPERT");
        return this.called(() => environment.adviseExpert?.(seed) as Advice);
      case Advisor.RANDOM:
        if (!environment.adviseRandom) {
          const message = `${spec.name} has no random player`;
          throw unknown("UNKNOWN_OPTION", message, "ADVISOR_NOOP");
        }
        return this.called(() => environment.adviseRandom?.(seed) as Advice);
      default:
        return this.called(() => environment.adviseNoop?.() ?? { action: "" });
    }
  }

  render(): readonly View[] {
    return this.called(() => fitViews(this.environment.render?.() ?? []));
  }

  /** Ask the step in flight to return. */
  interrupt(): void {
    this.stop.abort();
  }

  close(): void {
    this.interrupt();
    this.called(() => this.environment.close?.());
  }

  private requireHash(result: Result | undefined, wanted: Uint8Array | undefined, seq: number) {
    if (!result || !wanted?.length || sameBytes(result.stateHash, wanted)) return;
    throw diverged(`the journal leads to another state at seq ${seq}`, seq);
  }

  private record(observation: Observation, parsedAction: string | undefined): Result {
    const { text, reward, score, terminated = false, truncated = false } = observation;
    const { images = [] } = observation;
    const wrong =
      typeof text !== "string"
        ? "an observation without text"
        : Buffer.byteLength(text) > MAX_OBSERVATION_BYTES
          ? "an observation that is too long"
          : ![reward, score].every((it) => it === undefined || Number.isFinite(it))
            ? "a figure that is not finite"
            : (terminated || truncated) !== Boolean(observation.stopReason)
              ? "an end without a stop reason, or a stop reason without an end"
              : imageFlaw(images, this.limits);
    if (wrong) throw this.crashed(new Error(`it gave ${wrong}`));
    const proof = this.called(() => this.environment.fingerprint?.());
    const hash = createHash("sha256");
    hash.update(proof ?? this.last?.stateHash ?? "");
    const seen = [text, reward, score, terminated, truncated, observation.stopReason, parsedAction];
    hash.update(JSON.stringify(seen));
    for (const { content } of images) hash.update(createHash("sha256").update(content).digest());
    const stateHash = hash.digest().subarray(0, HASH_BYTES);
    this.last = { observation, stateHash, parsedAction };
    return this.last;
  }

  /** Call the environment, and wait for a promise no longer than a step may take. */
  private guarded<T>(call: () => T | Promise<T>): T | Promise<T> {
    const answer = this.called(call);
    if (!(answer instanceof Promise)) return answer;
    const { stepLimitMs } = this.limits;
    return new Promise((resolve, reject) => {
      const message = `environment ${this.spec.name} did not answer in ${stepLimitMs} ms`;
      const hung = () => reject(new CommandError("ENVIRONMENT_HUNG", message));
      const timer = setTimeout(hung, stepLimitMs);
      answer
        .then(resolve, (error: unknown) => reject(this.crashed(error)))
        .finally(() => clearTimeout(timer));
    });
  }

  private parsed<T>(read: () => T): T | typeof UNREADABLE {
    try {
      return read();
    } catch {
      return UNREADABLE; // boundary: a verb's `render` met arguments that nobody foresaw
    }
  }

  /** Call the environment's own code. */
  private called<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      throw this.crashed(error); // boundary: whatever an author's code throws
    }
  }

  private crashed(error: unknown): CommandError {
    if (error instanceof InvalidOption) {
      return unknown("UNKNOWN_OPTION", error.message, error.valid);
    }
    const message = `environment ${this.spec.name} threw ${String(error)}`;
    return new CommandError("ENVIRONMENT_CRASHED", message);
  }
}
