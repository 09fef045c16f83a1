// Who calls: clients are told apart by their tokens, else they are one, and each connection counts
// by itself where room is shared.

import { createHash } from "node:crypto";
import type { Metadata } from "@grpc/grpc-js";

import { CommandError } from "./errors.js";

export type Scope = "play" | "operate";

export interface NamedToken {
  token: string;
  scopes: readonly Scope[];
}

export interface Client {
  /** Empty = whoever is not told apart. */
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
}

const ANYBODY: Client = { name: "", scopes: new Set<Scope>(["play", "operate"]) };

export class Clients {
  /** By the digest of a token, so that comparing takes no time that would tell of it. */
  private readonly byToken = new Map<string, Client>();

  /** `token` admits to everything; `named` gives each client its own. None at all: all may come. */
  constructor(token = "", named: Readonly<Record<string, NamedToken>> = {}) {
    if (token) this.byToken.set(digest(token), ANYBODY);
    for (const [name, { token, scopes }] of Object.entries(named)) {
      if (!name || !token) throw new Error("a named token needs a name and a token");
      this.byToken.set(digest(token), { name, scopes: new Set(scopes) });
    }
  }

  get asksForTokens(): boolean {
    return this.byToken.size > 0;
  }

  /** Throws CommandError. */
  of(metadata: Metadata): Client {
    if (!this.asksForTokens) return ANYBODY;
    const [authorization = ""] = metadata.get("authorization").map(String);
    const client = this.byToken.get(digest(authorization.replace(/^Bearer /, "")));
    if (client && authorization.startsWith("Bearer ")) return client;
    const message = "a bearer token is required, and this is not it";
    throw new CommandError("UNAUTHENTICATED", message);
  }

  /** Throws CommandError where the caller's token does not have a scope. */
  inScope(metadata: Metadata, scope: Scope): Client {
    const client = this.of(metadata);
    if (client.scopes.has(scope)) return client;
    const message = `the token of ${client.name} does not have the scope ${scope}`;
    throw new CommandError("UNAUTHENTICATED", message);
  }
}

function digest(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
