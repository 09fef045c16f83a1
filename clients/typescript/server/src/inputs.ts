// A step's input as journals keep it.

import { CommandError, textTooLong } from "./errors.js";
import type { EnvironmentSpec } from "./environment.js";
import type { Command } from "./gen/agentgym/env/v1/environment_pb.js";
import { ActionFormat, type ActionInput } from "./gen/agentgym/env/v1/types_pb.js";

export type StepInput =
  | { readonly kind: "action"; readonly text: string }
  | { readonly kind: "reply"; readonly text: string; readonly format: ActionFormat }
  | { readonly kind: "toolCall"; readonly text: string; readonly name: string };

/** What an entry takes beside its text. */
const ENTRY_BYTES = 96;

/** The input of a step or of a journal entry; undefined = it has none. Throws CommandError. */
export function readInput(
  body: Command["body"] | ActionInput["input"],
  actionFormat: ActionFormat,
  episodeFormat: ActionFormat,
  spec: EnvironmentSpec,
  maxBytes: number,
): StepInput | undefined {
  switch (body.case) {
    case "action":
      return { kind: "action", text: bounded(body.value, maxBytes) };
    case "reply": {
      const format = actionFormat || episodeFormat;
      requireFormat(spec, format);
      return { kind: "reply", text: bounded(body.value, maxBytes), format };
    }
    case "toolCall": {
      const { name, argumentsJson } = body.value;
      return {
        kind: "toolCall",
        text: bounded(argumentsJson, maxBytes),
        name: bounded(name, maxBytes),
      };
    }
    default:
      return undefined;
  }
}

export function requireFormat(spec: EnvironmentSpec, format: ActionFormat): void {
  const spoken = spec.conversationStarts.map(([it]) => it);
  if (spoken.includes(format)) return;
  const valid = spoken.map((it) => ActionFormat[it]).join(", ");
  const message = `${spec.name} does not speak action format ${format} (it speaks ${valid})`;
  throw new CommandError("UNSUPPORTED_ACTION_FORMAT", message, { valid });
}

export function sameInput(a: StepInput | undefined, b: StepInput): boolean {
  if (a?.kind !== b.kind || a.text !== b.text) return false;
  if (a.kind === "reply") return a.format === (b as typeof a).format;
  return a.kind === "action" || a.name === (b as typeof a).name;
}

export function sameInputs(a: readonly StepInput[], b: readonly StepInput[]): boolean {
  return a.length === b.length && b.every((input, at) => sameInput(a[at], input));
}

/** Bytes that an input takes in a journal. */
export function inputBytes(input: StepInput): number {
  const name = input.kind === "toolCall" ? input.name : "";
  return Buffer.byteLength(input.text) + Buffer.byteLength(name) + ENTRY_BYTES;
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

function bounded(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) > maxBytes) throw textTooLong("a text", maxBytes);
  return text;
}
