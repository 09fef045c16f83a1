// Something that takes time, and those who wait for it. It goes on when all of them have given up.

import { gaveUp, type CommandError } from "./errors.js";
import type { Command } from "./gen/agentgym/env/v1/environment_pb.js";

/** The longest time that a timer of this platform waits. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class InFlight<T> {
  private readonly waiters = new Set<(error: CommandError) => void>();

  constructor(
    readonly seq: number,
    readonly done: Promise<T>,
  ) {
    done.catch(() => {}); // whoever waits hears of it; perhaps nobody does any more
  }

  /** Wait no longer than the command allows. Rejects with CommandError. */
  join({ episodeId, deadlineMs }: Command): Promise<T> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const leave = (error: CommandError) => {
        this.waiters.delete(leave);
        clearTimeout(timer);
        reject(error);
      };
      this.waiters.add(leave);
      if (deadlineMs > 0) {
        const late = () => leave(gaveUp("DEADLINE_EXCEEDED", episodeId));
        timer = setTimeout(late, Math.min(deadlineMs, MAX_TIMER_MS));
      }
      this.done.then(
        (value) => {
          this.waiters.delete(leave);
          clearTimeout(timer);
          resolve(value);
        },
        leave,
      );
    });
  }

  /** Let all who wait give up. */
  cancel(episodeId: string): void {
    for (const leave of [...this.waiters]) leave(gaveUp("CANCELLED", episodeId));
  }
}
