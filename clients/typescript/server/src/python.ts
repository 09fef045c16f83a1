// The one call of literals that CODE_AS_ACTION asks for, read without a Python.

/** Thrown for code that is not one call of literals. */
export class UnreadableCode extends Error {}

export interface Call {
  name: string;
  positional: unknown[];
  named: [name: string, value: unknown][];
}

const MAX_DEPTH = 64;
const BLANKS = /(?:[ \t\f\r\n]|#[^\n]*|\\\n)*/y;
const NAME = /[A-Za-z_][A-Za-z_0-9]*/y;
const NUMBER = /[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)/y;
const STRING = /([rRuU]?)("""|'''|"|')/y;
const ESCAPES: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([^]))/g;
const CONSTANTS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["True", true],
  ["False", false],
  ["None", null],
]);

/** Read `name(literal, key=literal)`; throws UnreadableCode. */
export function readCall(code: string): Call {
  return new Reader(code.trim()).call();
}

/** A literal that `readCall` reads as this value. */
export function writeLiteral(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(writeLiteral).join(", ")}]`;
  if (typeof value === "object") {
    const items = Object.entries(value).map((it) => it.map(writeLiteral).join(": "));
    return `{${items.join(", ")}}`;
  }
  return JSON.stringify(value); // of strings and numbers: Python reads them alike
}

class Reader {
  private at = 0;

  constructor(private readonly code: string) {}

  call(): Call {
    const name = this.match(NAME)?.[0];
    if (!name || !this.take("(")) throw new UnreadableCode("no call");
    const call: Call = { name, positional: [], named: [] };
    while (!this.take(")")) {
      const before = this.at;
      const key = this.match(NAME)?.[0];
      if (key && this.take("=")) {
        if (call.named.some(([other]) => other === key)) throw new UnreadableCode("repeated");
        call.named.push([key, this.literal(0)]);
      } else {
        this.at = before;
        if (call.named.length > 0) throw new UnreadableCode("positional after named");
        call.positional.push(this.literal(0));
      }
      if (!this.take(",") && !this.sees(")")) throw new UnreadableCode("no comma");
    }
    this.match(BLANKS);
    if (this.at < this.code.length) throw new UnreadableCode("more than a call");
    return call;
  }

  private literal(depth: number): unknown {
    if (depth > MAX_DEPTH) throw new UnreadableCode("too deep");
    if (this.take("[")) return this.items("]", depth);
    if (this.take("(")) return this.items(")", depth);
    if (this.take("{")) return this.dict(depth);
    const text = this.string();
    if (text !== undefined) return text;
    const number = this.match(NUMBER)?.[0];
    if (number !== undefined) return toNumber(number);
    const name = this.match(NAME)?.[0] ?? "";
    if (!CONSTANTS.has(name)) throw new UnreadableCode("no literal");
    return CONSTANTS.get(name);
  }

  private items(end: string, depth: number): unknown[] {
    const items: unknown[] = [];
    while (!this.take(end)) {
      items.push(this.literal(depth + 1));
      if (!this.take(",") && !this.sees(end)) throw new UnreadableCode("no comma");
    }
    return items;
  }

  private dict(depth: number): Record<string, unknown> {
    const items: [string, unknown][] = [];
    while (!this.take("}")) {
      const key = this.literal(depth + 1);
      if (typeof key !== "string" || !this.take(":")) throw new UnreadableCode("no key");
      items.push([key, this.literal(depth + 1)]);
      if (!this.take(",") && !this.sees("}")) throw new UnreadableCode("no comma");
    }
    return Object.fromEntries(items);
  }

  /** String literals in a row are one. */
  private string(): string | undefined {
    let whole: string | undefined;
    for (let start = this.match(STRING); start; start = this.match(STRING)) {
      const [, prefix = "", quote = ""] = start;
      whole = (whole ?? "") + this.stringEnd(quote, prefix.toLowerCase() === "r");
    }
    return whole;
  }

  private stringEnd(quote: string, raw: boolean): string {
    const begin = this.at;
    while (!this.code.startsWith(quote, this.at)) {
      if (this.at >= this.code.length || (quote.length === 1 && this.code[this.at] === "\n")) {
        throw new UnreadableCode("a string without an end");
      }
      this.at += this.code[this.at] === "\\" ? 2 : 1;
    }
    const body = this.code.slice(begin, this.at);
    this.at += quote.length;
    return raw ? body : body.replace(ESCAPE, unescaped);
  }

  private take(mark: string): boolean {
    const found = this.sees(mark);
    if (found) this.at += mark.length;
    return found;
  }

  private sees(mark: string): boolean {
    this.match(BLANKS, false);
    return this.code.startsWith(mark, this.at);
  }

  private match(pattern: RegExp, afterBlanks = true): RegExpExecArray | null {
    if (afterBlanks) this.match(BLANKS, false);
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.code);
    if (found) this.at = pattern.lastIndex;
    return found;
  }
}

function toNumber(text: string): number {
  const value = Number(text.replaceAll("_", "").replace(/^([-+])(0[xX].*)$/, "$2"));
  if (!Number.isFinite(value)) throw new UnreadableCode("no number");
  return text.startsWith("-0x") || text.startsWith("-0X") ? -value : value;
}

function unescaped(
  escape: string,
  byte?: string,
  short?: string,
  long?: string,
  octal?: string,
  other?: string,
): string {
  const hex = byte ?? short ?? long;
  if (hex !== undefined || octal !== undefined) {
    const point = hex !== undefined ? parseInt(hex, 16) : parseInt(octal ?? "", 8);
    if (point > 0x10ffff) throw new UnreadableCode("no such character");
    return String.fromCodePoint(point);
  }
  if (other !== undefined && /[NxuU]/.test(other)) throw new UnreadableCode("an escape");
  return ESCAPES[other ?? ""] ?? escape;
}
