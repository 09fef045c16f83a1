// How many episodes a server takes, and whose (R49, R58).

import { CommandError } from "./errors.js";
import type { Limits } from "./limits.js";

/** So long a client that was refused counts among those who share. */
const ASKED_MS = 5000;
const RETRY_MS = 500;

/** What one client holds. */
export interface Account {
  episodes: number;
  asked: number;
}

export class Admission {
  draining = false;
  private live = 0;
  private readonly accounts = new Map<string, Account>();

  constructor(private readonly limits: Limits) {}

  /** Count another episode of a client; throws CommandError where there is no room for it. */
  admit(client: string, now: number): Account {
    if (this.draining) {
      const message = "this server is shutting down and opens no more episodes";
      throw new CommandError("DRAINING", message, {}, 1000);
    }
    const account = this.accounts.get(client) ?? { episodes: 0, asked: now };
    account.asked = now;
    this.accounts.set(client, account);
    this.require(account, now);
    account.episodes++;
    this.live++;
    return account;
  }

  release(account: Account): void {
    account.episodes--;
    this.live--;
  }

  private require({ episodes }: Account, now: number): void {
    const { maxEpisodes, maxEpisodesPerClient } = this.limits;
    if (maxEpisodesPerClient && episodes >= maxEpisodesPerClient) {
      const message = `this client has ${episodes} live episodes, its full share`;
      throw new CommandError("CLIENT_LIMIT", message, {}, RETRY_MS);
    }
    const free = maxEpisodes - this.live;
    const clients = this.present(now);
    const share = Math.max(1, Math.floor(maxEpisodes / clients), free);
    if (clients > 1 && episodes >= share) {
      const message = `${clients} clients share this server: more than ${share} are too many`;
      throw new CommandError("CAPACITY_EXHAUSTED", message, { share }, RETRY_MS);
    }
    if (free <= 0) {
      const message = `no room for another episode: ${this.live} are live`;
      throw new CommandError("CAPACITY_EXHAUSTED", message, {}, RETRY_MS);
    }
  }

  /** How many clients hold an episode or asked for one a moment ago. */
  private present(now: number): number {
    for (const [client, { episodes, asked }] of this.accounts) {
      if (!episodes && now - asked > ASKED_MS) this.accounts.delete(client);
    }
    return this.accounts.size;
  }
}
