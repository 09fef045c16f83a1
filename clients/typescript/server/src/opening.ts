// What a reset asks for, checked; and how episodes come to be: by reset, journal or fork.

import type { JsonValue } from "@bufbuild/protobuf";

import type { EnvironmentSpec, Task } from "./environment.js";
import { CommandError, invalidArgument, lacksCapability, textTooLong, unknown } from "./errors.js";
import type { Opening } from "./game.js";
import type { Command, Reset } from "./gen/agentgym/env/v1/environment_pb.js";
import { inputBytes, readInput, requireFormat, type StepInput } from "./inputs.js";
import { MAX_ID_BYTES, MAX_JOURNAL_ENTRIES, type Limits } from "./limits.js";

const ITEM_ID = /^(?:([A-Za-z0-9_-]+)_)?([0-9]{1,12})$/;

/** A reset as it was asked for. */
export interface Wanted {
  readonly spec: EnvironmentSpec;
  readonly opening: Opening;
  /** Equal resets have equal keys. */
  readonly key: string;
  readonly journal: readonly StepInput[];
  /** By seq, from 0 on; empty ones are not checked. */
  readonly hashes: readonly Uint8Array[];
  readonly leaseMs: number;
}

export class Environments {
  private readonly byName: ReadonlyMap<string, EnvironmentSpec>;

  constructor(
    specs: readonly EnvironmentSpec[],
    private readonly limits: Limits,
  ) {
    this.byName = new Map(specs.map((spec) => [spec.name, spec]));
    if (this.byName.size < specs.length || !specs.length) {
      throw new Error("a server needs environments, each with a name of its own");
    }
  }

  /** Sorted. */
  get names(): string[] {
    return [...this.byName.keys()].sort();
  }

  get anyIsDeterministic(): boolean {
    return [...this.byName.values()].some(isDeterministic);
  }

  /** Throws CommandError. */
  find(name: string): EnvironmentSpec {
    const [first] = this.byName.values();
    const spec = !name && this.byName.size === 1 ? first : this.byName.get(name);
    if (spec) return spec;
    const valid = this.names.join(", ");
    const message = `this server has no environment ${JSON.stringify(name)} (it has ${valid})`;
    throw unknown("UNKNOWN_ENVIRONMENT", message, valid);
  }

  /** Throws CommandError. */
  readReset(command: Command, reset: Reset): Wanted {
    const spec = this.find(reset.environment);
    const { options, profile, format } = this.readWishes(spec, reset);
    const task = findTask(spec, reset.itemId);
    const { seed, leaseMs, images } = reset;
    const opening = { task, options: { seed, profile, options }, format, images };
    const key = canonical([spec.name, task.itemId, String(seed), profile, format, options, images]);
    const journal = this.readJournal(command, reset, spec, format);
    const hashes = [reset.initialStateHash, ...reset.journal.map(({ stateHash }) => stateHash)];
    return { spec, opening, key, journal, hashes, leaseMs: this.lease(leaseMs) };
  }

  /** Throws CommandError. */
  requireId(episodeId: string): void {
    const size = Buffer.byteLength(episodeId);
    if (size >= 1 && size <= MAX_ID_BYTES) return;
    throw invalidArgument("episode_id", `episode_id has 1 to ${MAX_ID_BYTES} bytes`);
  }

  lease(leaseMs: number): number {
    return Math.min(leaseMs || this.limits.defaultLeaseMs, this.limits.maxLeaseMs);
  }

  private readWishes(spec: EnvironmentSpec, reset: Reset) {
    const { name, profiles = ["default"], options: names = [] } = spec;
    const profile = reset.profile || profiles[0];
    if (!profiles.includes(profile)) {
      const message = `${name} has no profile ${JSON.stringify(profile)}`;
      throw unknown("UNKNOWN_OPTION", message, profiles.join(", "));
    }
    const format = reset.actionFormat || (spec.conversationStarts[0]?.[0] ?? 0);
    requireFormat(spec, format);
    const options = reset.options ?? {};
    const { maxTextBytes } = this.limits;
    if (Buffer.byteLength(reset.itemId + canonical(options)) > maxTextBytes) {
      throw textTooLong("item id and options", maxTextBytes);
    }
    requireJson(options);
    const other = Object.keys(options).find((option) => !names.includes(option));
    if (other !== undefined) {
      const message = `${name} has no option ${JSON.stringify(other)}`;
      throw unknown("UNKNOWN_OPTION", message, names.join(", "));
    }
    return { options, profile, format };
  }

  private readJournal(
    { seq }: Command,
    { journal }: Reset,
    spec: EnvironmentSpec,
    format: Opening["format"],
  ): readonly StepInput[] {
    if (seq !== BigInt(journal.length)) {
      const message = `a reset opens at seq ${journal.length}, the number of its journal entries`;
      throw invalidArgument("seq", message);
    }
    if (journal.length > MAX_JOURNAL_ENTRIES) {
      throw invalidArgument("journal", `a journal may have ${MAX_JOURNAL_ENTRIES} entries`);
    }
    if (journal.length && !isDeterministic(spec)) {
      throw lacksCapability(`no journal rebuilds episodes of ${spec.name}`, "DETERMINISTIC");
    }
    const { maxTextBytes, maxJournalBytes } = this.limits;
    const inputs = journal.map(({ input }, at) => {
      const read =
        input && readInput(input.input, input.actionFormat, format, spec, maxTextBytes);
      if (!read) throw invalidArgument("journal", `journal entry ${at + 1} has no input`);
      return read;
    });
    const size = inputs.reduce((sum, input) => sum + inputBytes(input), 0);
    if (maxJournalBytes && size > maxJournalBytes) {
      throw textTooLong("the inputs of an episode together", maxJournalBytes);
    }
    return inputs;
  }
}

export function isDeterministic({ deterministic = true }: EnvironmentSpec): boolean {
  return deterministic;
}

/** The task that an item id names; throws CommandError. */
export function findTask({ name, splits }: EnvironmentSpec, itemId: string): Task {
  const [, task = name, digits = ""] = ITEM_ID.exec(itemId) ?? [];
  const index = Number(digits);
  const ranges = Object.values(splits);
  const exists = ranges.some(({ first, size }) => index >= first && index < first + size);
  if (digits && task === name && exists) return { itemId: `${name}_${index}`, index };
  const valid = ranges.map(({ first, size }) => `${name}_${first} to ${name}_${first + size - 1}`);
  const message = `unknown item ${JSON.stringify(itemId.slice(0, 100))}`;
  throw unknown("UNKNOWN_ITEM", message, valid.join(", "));
}

/** JSON text that is the same for the same values, whatever the order of their names. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, it: unknown) =>
    typeof it === "object" && it !== null && !Array.isArray(it)
      ? Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1)))
      : it,
  );
}

function requireJson(value: JsonValue): void {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw invalidArgument("options", "options: JSON has no NaN and no infinity");
  }
  if (typeof value === "object" && value !== null) Object.values(value).forEach(requireJson);
}

export function notDeterministic(name: string, seq: number): CommandError {
  return lacksCapability(`${name} forks only at its current state, seq ${seq}`, "DETERMINISTIC");
}
