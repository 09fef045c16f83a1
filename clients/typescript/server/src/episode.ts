// The rules of one episode: sequence numbers, kept results, journal, lease. Time is passed in.

import { CommandError, episodeBusy, seqConflict, seqGap, textTooLong } from "./errors.js";
import type { Game, Opening, Result } from "./game.js";
import type { InFlight } from "./in_flight.js";
import { inputBytes, sameInput, type StepInput } from "./inputs.js";
import type { Limits } from "./limits.js";
import type { Client } from "./clients.js";
import type { Session } from "./session.js";

/** How it was opened: the same command again is answered, another one is refused. */
export interface Origin {
  /** Equal openings have equal keys. */
  readonly key: string;
  readonly leaseMs: number;
}

export class Episode {
  readonly journal: StepInput[] = [];
  /** By seq, from 0 on. */
  readonly hashes: Uint8Array[] = [];
  inFlight: InFlight<Result> | undefined;
  session: Session | undefined;
  ended = false;
  lastUsed: number;

  private readonly results: Result[] = [];
  private journalBytes = 0;
  private failure: CommandError | undefined;

  constructor(
    readonly id: string,
    readonly client: Client,
    readonly opening: Opening,
    /** Of its reset, also where it is a copy. */
    readonly resetKey: string,
    readonly origin: Origin,
    readonly game: Game,
    private readonly limits: Limits,
    now: number,
  ) {
    this.lastUsed = now;
  }

  /** The current state. */
  get seq(): number {
    return this.journal.length;
  }

  /** Take over what led here; `results` are those of the last seqs. */
  begin(journal: readonly StepInput[], hashes: readonly Uint8Array[], results: readonly Result[]) {
    this.journal.push(...journal);
    this.hashes.push(...hashes);
    this.journalBytes = journal.reduce((size, input) => size + inputBytes(input), 0);
    for (const result of results) this.keep(result);
  }

  /** Whether a step is to be executed, answered again, or waited for; throws CommandError. */
  decide(seq: number, input: StepInput): "execute" | "replay" | "join" {
    const { inFlight } = this;
    if (inFlight?.seq === seq) {
      if (sameInput(this.executing, input)) return "join";
      throw seqConflict(this.id, `executes seq ${seq} with another input`);
    }
    if (seq > 0 && seq <= this.seq) {
      if (sameInput(this.journal[seq - 1], input)) return "replay";
      if (!inFlight) throw seqConflict(this.id, `was sent seq ${seq} with another input`);
    }
    if (inFlight) throw episodeBusy(this.id, inFlight.seq);
    if (seq !== this.seq + 1) {
      throw seqGap(this.id, this.seq + 1, `the next step is ${this.seq + 1}, not ${seq}`);
    }
    if (this.ended) {
      throw new CommandError("EPISODE_ENDED", `episode ${this.id} ended at seq ${this.seq}`);
    }
    if (this.failure) throw this.failure;
    return "execute";
  }

  /** The input of the step in flight. */
  executing: StepInput | undefined;

  commit(input: StepInput, result: Result): void {
    this.journal.push(input);
    this.hashes.push(result.stateHash);
    this.keep(result);
    this.journalBytes += inputBytes(input);
    const { maxJournalBytes } = this.limits;
    if (maxJournalBytes && this.journalBytes > maxJournalBytes) {
      this.fail(textTooLong("the inputs of an episode together", maxJournalBytes));
    }
  }

  /** Take no more steps: each is answered with this error. */
  fail(error: CommandError): void {
    this.failure = error;
  }

  requireSound(): void {
    if (this.failure) throw this.failure;
  }

  /** The result of a seq; throws CommandError where it is no longer kept. */
  result(seq: number): Result {
    const oldest = this.seq - this.results.length + 1;
    const result = this.results[seq - oldest];
    if (result) return result;
    const message = `the result of seq ${seq} of episode ${this.id} is no longer kept`;
    throw new CommandError("RESPONSE_EVICTED", message, { oldest });
  }

  attach(session: Session, now: number): void {
    this.lastUsed = now;
    if (this.session === session || session.closed) return; // it was lost meanwhile: its lease runs
    this.session?.episodes.delete(this);
    this.session = session;
    session.episodes.add(this);
  }

  detach(now: number): void {
    this.session?.episodes.delete(this);
    this.session = undefined;
    this.lastUsed = now;
  }

  /** Why its time is up; undefined = it is not. */
  expired(now: number): "LEASE" | "IDLE" | undefined {
    if (this.inFlight) return undefined;
    const unused = now - this.lastUsed;
    if (!this.session) return unused > this.origin.leaseMs ? "LEASE" : undefined;
    const { idleLimitMs } = this.limits;
    return idleLimitMs && unused > idleLimitMs ? "IDLE" : undefined;
  }

  private keep(result: Result): void {
    this.results.push(result);
    if (this.results.length > this.limits.responseCacheEvents) this.results.shift();
    if (result.observation.terminated || result.observation.truncated) this.ended = true;
  }
}
