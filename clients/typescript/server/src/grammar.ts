// From what a model wrote to one native action (docs/protocol.md, "Action formats"), and from a
// native action to what a model would have written. Nothing that a model wrote is ever executed.

import type { Advice } from "./environment.js";
import { ActionFormat } from "./gen/agentgym/env/v1/types_pb.js";
import { readCall, UnreadableCode, writeLiteral } from "./python.js";

export type Arguments = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly type: "string" | "integer" | "number" | "boolean" | "array" | "object";
  readonly description?: string;
  /** Default true. */
  readonly required?: boolean;
}

/** A native action as a function. */
export interface Verb {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** The native action; may throw for arguments that make none. */
  render(given: Arguments): string;
}

/** A reply in which no action can be read. */
export const UNREADABLE = Symbol("unreadable");

const CONTROLS = /[\u0000-\u001f]/g;
const STRINGS = /"(?:[^"\\]|\\[^])*"/g;
const PYTHON_BLOCK = /```(?:python|py)?[ \t]*\n([^]*?)```/;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const MAX_CODE_CHARS = 65_536;

export class Grammar {
  private readonly byName: ReadonlyMap<string, Verb>;

  /** `express` says a native action as a call, for scripted players. */
  constructor(
    readonly verbs: readonly Verb[],
    private readonly express: (action: string) => readonly [name: string, given: Arguments],
  ) {
    this.byName = new Map(verbs.map((verb) => [verb.name, verb]));
  }

  /** The verbs as a JSON list of OpenAI-style tools. */
  functionsJson(): string {
    return JSON.stringify(this.verbs.map(declaration));
  }

  read(reply: string, format: ActionFormat): string | typeof UNREADABLE {
    switch (format) {
      case ActionFormat.FUNCTION_CALLING:
        return this.readFunctionCall(reply);
      case ActionFormat.CODE_AS_ACTION:
        return this.readCode(reply);
      default: {
        const at = reply.lastIndexOf("Action:");
        return at < 0 ? "" : reply.slice(at + "Action:".length).trim();
      }
    }
  }

  /** Read a structured call whose arguments are JSON text. */
  readToolCall(name: string, argumentsJson: string): string | typeof UNREADABLE {
    const given = parseJson(argumentsJson.trim() || "{}");
    return this.readCall(name, given);
  }

  /** Advice as a model would have replied it. */
  write({ action, thought = "" }: Advice, format: ActionFormat): string {
    if (format === ActionFormat.REACT) return `Thought:\n${thought}\n\nAction:\n${action}`;
    const [name, given] = this.express(action);
    if (format === ActionFormat.FUNCTION_CALLING) {
      return JSON.stringify({ thought, function_name: name, arguments: given });
    }
    const call = Object.entries(given)
      .map(([key, value]) => `${key}=${writeLiteral(value)}`)
      .join(", ");
    // A fence inside the block would end it.
    const comments = thought.replaceAll("```", "").replace(/^/gm, "# ");
    return `\`\`\`python\n${comments}\n${name}(${call.replaceAll("```", "\\x60``")})\n\`\`\``;
  }

  private readCall(name: unknown, given: unknown): string | typeof UNREADABLE {
    const verb = typeof name === "string" ? this.byName.get(name) : undefined;
    if (!verb || !isObject(given) || !fits(verb, given)) return UNREADABLE;
    const action = verb.render(given);
    return LONE_SURROGATE.test(action) ? UNREADABLE : action;
  }

  private readFunctionCall(reply: string): string | typeof UNREADABLE {
    const call = parseJson(reply.slice(reply.indexOf("{"), reply.lastIndexOf("}") + 1));
    if (!isObject(call)) return UNREADABLE;
    return this.readCall(call["function_name"], call["arguments"] ?? {});
  }

  private readCode(reply: string): string | typeof UNREADABLE {
    const code = PYTHON_BLOCK.exec(reply)?.[1] ?? reply;
    if (code.length > MAX_CODE_CHARS) return UNREADABLE;
    try {
      const { name, positional, named } = readCall(code);
      const parameters = Object.keys(this.byName.get(name)?.parameters ?? {});
      if (positional.length > parameters.length) return UNREADABLE;
      const given = Object.fromEntries(positional.map((value, at) => [parameters[at], value]));
      for (const [key, value] of named) {
        if (key in given) return UNREADABLE;
        given[key] = value;
      }
      return this.readCall(name, given);
    } catch (error) {
      if (error instanceof UnreadableCode) return UNREADABLE;
      throw error;
    }
  }
}

/** JSON whose strings may have raw line breaks, as models write them; undefined = it is none. */
function parseJson(text: string): unknown {
  const escaped = text.replace(STRINGS, (literal) =>
    literal.replace(CONTROLS, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
  try {
    return JSON.parse(escaped);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fits({ parameters }: Verb, given: Arguments): boolean {
  for (const [name, value] of Object.entries(given)) {
    const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (!parameter || !hasType(value, parameter.type)) return false;
  }
  return Object.entries(parameters).every(
    ([name, { required = true }]) => !required || Object.hasOwn(given, name),
  );
}

function hasType(value: unknown, type: Parameter["type"]): boolean {
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isInteger(value);
  return typeof value === type;
}

function declaration({ name, description, parameters }: Verb): object {
  const properties = Object.entries(parameters).map(([key, { type, description }]) => [
    key,
    { type, ...(description && { description }) },
  ]);
  const required = Object.entries(parameters).filter(([, { required = true }]) => required);
  return {
    type: "function",
    function: {
      name,
      description,
      parameters: {
        type: "object",
        properties: Object.fromEntries(properties),
        required: required.map(([key]) => key),
        additionalProperties: false,
      },
    },
  };
}
