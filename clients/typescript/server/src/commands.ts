// Every command gets exactly one event that answers it. What an environment answers at once is
// answered where it is read; what takes time is waited for beside it.

import { create } from "@bufbuild/protobuf";

import { Admission, type Account } from "./admission.js";
import type { Client } from "./clients.js";
import type { Image, View } from "./environment.js";
import { Episode, type Origin } from "./episode.js";
import {
  beingOpened,
  CommandError,
  diverged,
  episodeBusy,
  gaveUp,
  invalidArgument,
  lacksCapability,
  seqConflict,
  seqGap,
} from "./errors.js";
import { Game, type Opening, type Result } from "./game.js";
import {
  Advisor,
  AdviceSchema,
  AttachedSchema,
  CancelledSchema,
  ClosedSchema,
  LeaseExtendedSchema,
  type Command,
} from "./gen/agentgym/env/v1/environment_pb.js";
import {
  ImageSchema,
  StopReason,
  type Image as ImageMessage,
} from "./gen/agentgym/env/v1/types_pb.js";
import { InFlight } from "./in_flight.js";
import { readInput, sameBytes, sameInputs, type StepInput } from "./inputs.js";
import { MAX_ID_BYTES, type Limits } from "./limits.js";
import { Environments, isDeterministic, notDeterministic, type Wanted } from "./opening.js";
import type { Body, Session } from "./session.js";

/** Ends by the server that are remembered, to say why. */
const MAX_ENDED = 10_000;
const CREDIT_RETRY_MS = 100;
/** Verbs that never wait: a client without credits can still use them. */
const CONTROLS: ReadonlySet<string> = new Set(["attach", "cancel", "heartbeat", "close"]);

/** An episode that is being opened. */
interface PendingOpen {
  readonly client: Client;
  /** Of its command: an equal one joins it. */
  readonly key: string;
  readonly inFlight: InFlight<Episode>;
  closed: boolean;
}

/** An opening to be carried out. */
interface Plan {
  readonly opening: Opening;
  readonly resetKey: string;
  readonly origin: Origin;
  /** Of the command as a whole, journal included. */
  readonly key: string;
  /** What led to the state that it opens at. */
  readonly journal: readonly StepInput[];
  start(): Promise<Started>;
}

interface Started {
  readonly game: Game;
  /** Of the last seqs. */
  readonly results: readonly Result[];
  /** By seq, from 0 on. */
  readonly hashes: readonly Uint8Array[];
}

export class Commands {
  readonly admission: Admission;
  readonly episodes = new Map<string, Episode>();
  private readonly accounts = new Map<Episode, Account>();
  private readonly opening = new Map<string, PendingOpen>();
  private readonly endedBecause = new Map<string, string>();

  constructor(
    readonly environments: Environments,
    private readonly limits: Limits,
  ) {
    this.admission = new Admission(limits);
  }

  /** Whether a stream still drives an episode, or one is being opened. */
  get isBusy(): boolean {
    const played = [...this.episodes.values()].some(({ ended, session }) => !ended && session);
    return this.opening.size > 0 || played;
  }

  /** Answer a command, now or later; never throws. */
  handle(session: Session, command: Command): void {
    try {
      const answer = this.dispatch(session, command);
      if (answer instanceof Promise) {
        session.answerLater(command, answer.catch(refusal));
      } else {
        session.answer(command, answer);
      }
    } catch (error) {
      session.answer(command, refusal(error));
    }
  }

  /** The stream is gone: the leases of its episodes run. */
  detach(session: Session): void {
    session.close();
    for (const episode of [...session.episodes]) episode.detach(Date.now());
  }

  /** End the episodes whose time is up. */
  reap(): void {
    const now = Date.now();
    for (const episode of [...this.episodes.values()]) {
      const cause = episode.expired(now);
      if (!cause) continue;
      this.discard(episode);
      this.endedBecause.set(endKey(episode.id, episode.client), cause);
      const [oldest] = this.endedBecause.keys();
      if (this.endedBecause.size > MAX_ENDED && oldest) this.endedBecause.delete(oldest);
    }
  }

  /** Pictures of an episode's state, after a step that is under way. Rejects with CommandError. */
  async render(episodeId: string, client: Client): Promise<[Episode, readonly View[]]> {
    let episode = this.find(episodeId, client);
    episode.lastUsed = Date.now();
    while (episode.inFlight) {
      await episode.inFlight.done.catch(() => {});
      episode = this.find(episodeId, client);
    }
    if (!episode.game.spec.create().render) {
      throw lacksCapability(`${episode.game.spec.name} draws no pictures`, "RENDER");
    }
    episode.requireSound();
    return [episode, episode.game.render()];
  }

  private dispatch(session: Session, command: Command): Body | Promise<Body> {
    const { body } = command;
    if (!CONTROLS.has(body.case ?? "") && session.inFlight >= this.limits.maxInFlight) {
      const message = `more than ${this.limits.maxInFlight} commands are in flight on this stream`;
      throw new CommandError("CREDITS_EXCEEDED", message, {}, CREDIT_RETRY_MS);
    }
    switch (body.case) {
      case undefined:
        throw new CommandError("UNSUPPORTED_VERB", "the command has no body that is known here");
      case "reset":
        return this.reset(session, command, this.environments.readReset(command, body.value));
      case "fork":
        return this.fork(session, command, body.value.fromEpisodeId, body.value.leaseMs);
      case "close":
        return this.close(session, command);
      case "cancel":
        return this.cancel(session, command);
    }
    const episode = this.find(command.episodeId, session.client);
    episode.attach(session, Date.now());
    switch (body.case) {
      case "attach":
        return this.attach(session, episode, Number(body.value.lastSeqSeen));
      case "consult":
        return this.consult(episode, command, body.value.advisor, body.value.seed);
      case "heartbeat": {
        const value = create(LeaseExtendedSchema, { leaseMs: episode.origin.leaseMs });
        return { body: { case: "leaseExtended", value } };
      }
      default:
        return this.step(episode, command);
    }
  }

  // -------------------------------------------------------------------- steps

  private step(episode: Episode, command: Command): Body | Promise<Body> {
    const seq = Number(command.seq);
    const { opening, game } = episode;
    const { maxTextBytes } = this.limits;
    const { body, actionFormat } = command;
    const input = readInput(body, actionFormat, opening.format, game.spec, maxTextBytes);
    if (!input) throw new CommandError("UNSUPPORTED_VERB", "the command is no step");
    const decision = episode.decide(seq, input);
    if (decision === "replay") return observed(episode, episode.result(seq), true);
    if (decision === "execute") {
      const result = this.execute(episode, input);
      if (!(result instanceof Promise)) return observed(episode, result, false);
      episode.executing = input;
      episode.inFlight = new InFlight(seq, this.settle(episode, input, result));
    }
    const { inFlight } = episode;
    if (!inFlight) throw new Error("a step that is joined is in flight");
    return inFlight.join(command).then((result) => observed(episode, result, false));
  }

  private execute(episode: Episode, input: StepInput): Result | Promise<Result> {
    try {
      const result = episode.game.step(input);
      if (!(result instanceof Promise)) episode.commit(input, result);
      return result;
    } catch (error) {
      episode.fail(toCommandError(error));
      throw error;
    }
  }

  private async settle(episode: Episode, input: StepInput, result: Promise<Result>) {
    try {
      const settled = await result;
      episode.commit(input, settled);
      return settled;
    } catch (error) {
      episode.fail(toCommandError(error));
      throw error;
    } finally {
      episode.inFlight = undefined;
      episode.executing = undefined;
      episode.lastUsed = Date.now();
    }
  }

  // -------------------------------------------------------------------- other verbs

  private attach(session: Session, episode: Episode, lastSeen: number): Body {
    const { id, seq, origin, inFlight } = episode;
    if (lastSeen > seq) throw seqGap(id, seq, `seq ${lastSeen} cannot have been seen`);
    const first = Math.max(lastSeen, -1) + 1;
    const missed = Array.from({ length: seq - first + 1 }, (_, at) => episode.result(first + at));
    missed.forEach((result, at) => {
      session.answer({ episodeId: id, seq: BigInt(first + at) }, observed(episode, result, true));
    });
    const value = create(AttachedSchema, {
      currentSeq: BigInt(seq),
      inFlight: inFlight !== undefined,
      leaseMs: origin.leaseMs,
    });
    return { body: { case: "attached", value } };
  }

  private consult(episode: Episode, { seq }: Command, advisor: Advisor, seed: bigint): Body {
    if (episode.inFlight) throw episodeBusy(episode.id, episode.inFlight.seq);
    if (seq !== BigInt(episode.seq)) {
      throw seqGap(episode.id, episode.seq, `advice is for seq ${episode.seq}`);
    }
    episode.requireSound();
    if (!advisor || !(advisor in Advisor)) {
      throw invalidArgument("advisor", "an advisor must be named");
    }
    const advice = episode.game.advise(advisor, seed);
    const reply = episode.game.spec.grammar.write(advice, episode.opening.format);
    return { body: { case: "advice", value: create(AdviceSchema, { ...advice, reply }) } };
  }

  private cancel(session: Session, { episodeId, seq }: Command): Body {
    const pending = this.ownOpening(episodeId, session.client);
    let found = false;
    if (pending && !this.own(episodeId, session.client)) {
      found = BigInt(pending.inFlight.seq) === seq;
      if (found) pending.inFlight.cancel(episodeId);
    } else {
      const episode = this.find(episodeId, session.client);
      episode.attach(session, Date.now());
      const { inFlight } = episode;
      found = inFlight !== undefined && BigInt(inFlight.seq) === seq;
      if (found) {
        inFlight?.cancel(episodeId);
        episode.game.interrupt();
      }
    }
    return { body: { case: "cancelled", value: create(CancelledSchema, { found }) } };
  }

  private close(session: Session, { episodeId }: Command): Body {
    const episode = this.own(episodeId, session.client);
    const pending = this.ownOpening(episodeId, session.client);
    if (episode) {
      this.discard(episode);
    } else if (pending) {
      pending.closed = true;
      pending.inFlight.cancel(episodeId);
    }
    const found = Boolean(episode ?? pending);
    return { body: { case: "closed", value: create(ClosedSchema, { found }) } };
  }

  // -------------------------------------------------------------------- opening

  private reset(session: Session, command: Command, wanted: Wanted): Body | Promise<Body> {
    const { spec, opening, key, journal, hashes, leaseMs } = wanted;
    const existing = this.own(command.episodeId, session.client);
    if (existing && isStale(existing, wanted)) {
      this.discard(existing); // its client went on elsewhere and comes back with a longer journal
    } else if (existing?.origin.key === key || (journal.length && existing?.resetKey === key)) {
      return reopened(session, existing, journal, hashes);
    }
    const { limits } = this;
    return this.open(session, command, {
      opening,
      resetKey: key,
      origin: { key, leaseMs },
      key: JSON.stringify([key, journal]),
      journal,
      start: () => replayed(Game.open(spec, opening, journal, hashes, limits)),
    });
  }

  private fork(session: Session, command: Command, from: string, wantedLeaseMs: number) {
    const seq = Number(command.seq);
    const key = JSON.stringify(["fork", from, seq]);
    const existing = this.own(command.episodeId, session.client);
    if (existing?.origin.key === key) {
      return reopened(session, existing, existing.journal.slice(0, seq), []);
    }
    const pending = this.ownOpening(command.episodeId, session.client);
    if (pending?.key === key) return this.opened(session, pending, command);
    const source = this.find(from, session.client);
    if (source.inFlight) throw episodeBusy(from, source.inFlight.seq);
    if (seq > source.seq) throw seqGap(from, source.seq, `it cannot be forked at ${seq}`);
    const { opening, resetKey } = source;
    const journal = source.journal.slice(0, seq);
    const leaseMs = this.environments.lease(wantedLeaseMs);
    const start = () => this.startFork(source, journal);
    const plan = { opening, resetKey, origin: { key, leaseMs }, key, journal, start };
    return this.open(session, command, plan);
  }

  /** A copy of the present state is the environment's own, where it makes one. */
  private startFork(source: Episode, journal: readonly StepInput[]): Promise<Started> {
    const { game, opening, hashes } = source;
    const isPresent = journal.length === source.seq;
    if (isPresent) {
      source.requireSound();
      const copy = game.fork();
      const results = [source.result(source.seq)];
      if (copy) return Promise.resolve({ game: copy, results, hashes: [...hashes] });
    }
    if (!isDeterministic(game.spec)) throw notDeterministic(game.spec.name, source.seq);
    const past = hashes.slice(0, journal.length + 1);
    return replayed(Game.open(game.spec, opening, journal, past, this.limits));
  }

  private open(session: Session, command: Command, plan: Plan): Promise<Body> {
    const { episodeId } = command;
    this.environments.requireId(episodeId);
    const pending = this.opening.get(episodeId);
    if (pending) {
      if (pending.client.name !== session.client.name || pending.key !== plan.key) {
        throw beingOpened(episodeId);
      }
      return this.opened(session, pending, command);
    }
    if (this.episodes.has(episodeId)) {
      throw seqConflict(episodeId, "is live and was opened otherwise");
    }
    const account = this.admission.admit(session.account, Date.now());
    let started: Promise<Started>;
    try {
      started = plan.start(); // now: later steps of a source are not the copy's
    } catch (error) {
      this.admission.release(account);
      throw error;
    }
    const inFlight = new InFlight(
      plan.journal.length,
      this.install(episodeId, session.client, plan, started, account),
    );
    const begun = { client: session.client, key: plan.key, inFlight, closed: false };
    this.opening.set(episodeId, begun);
    return this.opened(session, begun, command);
  }

  private async install(
    episodeId: string,
    client: Client,
    plan: Plan,
    started: Promise<Started>,
    account: Account,
  ): Promise<Episode> {
    try {
      const { game, results, hashes } = await started;
      if (this.opening.get(episodeId)?.closed) {
        game.close();
        throw gaveUp("CANCELLED", episodeId);
      }
      const { opening, resetKey, origin, journal } = plan;
      const now = Date.now();
      const { limits } = this;
      const episode = new Episode(episodeId, client, opening, resetKey, origin, game, limits, now);
      episode.begin(journal, hashes, results);
      this.episodes.set(episodeId, episode);
      this.accounts.set(episode, account);
      this.endedBecause.delete(endKey(episodeId, client));
      return episode;
    } catch (error) {
      this.admission.release(account);
      throw error;
    } finally {
      this.opening.delete(episodeId);
    }
  }

  private async opened(session: Session, { inFlight }: PendingOpen, command: Command) {
    const episode = await inFlight.join(command);
    if (this.episodes.get(episode.id) === episode) episode.attach(session, Date.now());
    return observed(episode, episode.result(inFlight.seq), false);
  }

  // -------------------------------------------------------------------- whose, and whether

  private own(episodeId: string, client: Client): Episode | undefined {
    const episode = this.episodes.get(episodeId);
    return episode?.client.name === client.name ? episode : undefined;
  }

  private ownOpening(episodeId: string, client: Client): PendingOpen | undefined {
    const pending = this.opening.get(episodeId);
    return pending?.client.name === client.name ? pending : undefined;
  }

  private find(episodeId: string, client: Client): Episode {
    const episode = this.own(episodeId, client);
    if (episode) return episode;
    if (this.ownOpening(episodeId, client)) throw beingOpened(episodeId);
    const cause = this.endedBecause.get(endKey(episodeId, client));
    const message = `no live episode ${JSON.stringify(episodeId.slice(0, MAX_ID_BYTES))} here`;
    throw new CommandError("EPISODE_NOT_FOUND", message, {
      journal_replayable: String(this.environments.anyIsDeterministic),
      ...(cause && { cause }),
    });
  }

  private discard(episode: Episode): void {
    this.episodes.delete(episode.id);
    episode.detach(episode.lastUsed);
    const account = this.accounts.get(episode);
    this.accounts.delete(episode);
    if (account) this.admission.release(account);
    episode.inFlight?.cancel(episode.id);
    try {
      episode.game.close();
    } catch (error) {
      console.error(`episode ${episode.id}: ${toCommandError(error).message}`); // nobody else hears
    }
  }
}

async function replayed(opened: Promise<[Game, Result[]]>): Promise<Started> {
  const [game, results] = await opened;
  return { game, results, hashes: results.map(({ stateHash }) => stateHash) };
}

/** The journal continues what is known here of the episode. */
function isStale({ resetKey, inFlight, journal }: Episode, wanted: Wanted): boolean {
  const { length } = journal;
  if (resetKey !== wanted.key || inFlight || length >= wanted.journal.length) return false;
  return sameInputs(journal, wanted.journal.slice(0, length));
}

/** The same opening again: the kept result, unless the journals contradict each other. */
function reopened(
  session: Session,
  episode: Episode,
  journal: readonly StepInput[],
  hashes: readonly Uint8Array[],
): Body {
  episode.attach(session, Date.now());
  if (!sameInputs(episode.journal.slice(0, journal.length), journal)) {
    throw seqConflict(episode.id, "is live with another journal");
  }
  for (const [seq, wanted] of hashes.entries()) {
    const known = episode.hashes[seq];
    if (known && wanted.length && !sameBytes(known, wanted)) {
      throw diverged(`episode ${episode.id} is live with another state at seq ${seq}`, seq);
    }
  }
  return observed(episode, episode.result(journal.length), true);
}

function observed(
  { opening }: Episode,
  { observation, stateHash, parsedAction }: Result,
  replayed: boolean,
): Body {
  const { text, reward, score, terminated = false, truncated = false } = observation;
  const { stopReason = StopReason.UNSPECIFIED, info, images = [] } = observation;
  return {
    body: { case: "observation", value: text },
    replayed,
    stateHash,
    terminated,
    truncated,
    stopReason,
    ...(reward !== undefined && { reward }),
    ...(score !== undefined && { score }),
    ...(info && { info }),
    ...(opening.images && { images: images.map(toMessage) }),
    ...(parsedAction !== undefined && { parsedAction }),
  };
}

function toMessage({ mediaType, content }: Image): ImageMessage {
  return create(ImageSchema, { mediaType, content });
}

function refusal(error: unknown): Body {
  return { body: { case: "error", value: toCommandError(error).toStatus() } };
}

/** Every other error is a bug of this library, and ends its process. */
export function toCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  throw error;
}

function endKey(episodeId: string, { name }: Client): string {
  return JSON.stringify([name, episodeId]);
}
