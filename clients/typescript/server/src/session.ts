// One Interact stream, or one unary call, as the commands see it: who calls, what it holds, and the
// events that wait to be sent.

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import type { Client } from "./clients.js";
import type { Episode } from "./episode.js";
import {
  EventSchema,
  InteractResponseSchema,
  type Command,
  type Event,
  type InteractResponse,
} from "./gen/agentgym/env/v1/environment_pb.js";
import type { Limits } from "./limits.js";

/** An event without the names of the command that it answers. */
export type Body = Omit<
  MessageInitShape<typeof EventSchema>,
  "$typeName" | "$unknown" | "episodeId" | "seq"
>;

/** Texts of a message that are together longer begin another one. */
const MESSAGE_BYTES = 1024 * 1024;
/** What may wait to be read before no more commands are taken. */
const OUTBOX_BYTES = 16 * 1024 * 1024;

export class Session {
  readonly episodes = new Set<Episode>();
  /** Commands whose answers take time. */
  inFlight = 0;
  private outbox: Event[] = [];
  private outboxBytes = 0;
  private scheduled = false;
  private sent = Promise.resolve();
  /** Nobody reads it any more. */
  closed = false;
  private idle: () => void = () => {};

  constructor(
    readonly client: Client,
    /** Whose share of a server's room is used. */
    readonly account: string,
    private readonly limits: Limits,
    /** False = wait for the reader before more is sent. */
    private readonly write: (response: InteractResponse) => boolean,
    private readonly writable: () => Promise<void> = () => Promise.resolve(),
  ) {}

  /** Whether its client has to read first. */
  get isBacklogged(): boolean {
    return this.outboxBytes > OUTBOX_BYTES;
  }

  answer({ episodeId, seq }: Pick<Command, "episodeId" | "seq">, body: Body): void {
    if (this.closed) return;
    this.outbox.push(create(EventSchema, { episodeId, seq, ...body }));
    this.outboxBytes += sizeOf(body);
  }

  /** Answer when it is there; in flight until then. */
  answerLater(command: Command, body: Promise<Body>): void {
    this.inFlight++;
    void body.then((it) => {
      this.inFlight--;
      this.answer(command, it);
      this.flushSoon();
      if (!this.inFlight) this.idle();
    });
  }

  /** Send what there is, after what is being sent. */
  flush(): Promise<void> {
    this.sent = this.sent.then(() => this.sendAll());
    return this.sent;
  }

  /** Send in messages of a bounded size, as fast as they are read. */
  private async sendAll(): Promise<void> {
    const events = this.outbox;
    this.outbox = [];
    this.outboxBytes = 0;
    let begin = 0;
    let bytes = 0;
    for (const [at, event] of events.entries()) {
      const size = sizeOf(event);
      const isFull = at - begin >= this.limits.maxItemsPerMessage || bytes + size > MESSAGE_BYTES;
      if (isFull && at > begin) {
        await this.send(events.slice(begin, at));
        begin = at;
        bytes = 0;
      }
      bytes += size;
    }
    if (begin < events.length) await this.send(events.slice(begin));
  }

  /** Answer what is outstanding, then send no more. */
  async finish(): Promise<void> {
    if (this.inFlight) await new Promise<void>((resolve) => (this.idle = resolve));
    await this.flush();
    this.close();
  }

  /** Its pipe is gone: answers are dropped. */
  close(): void {
    this.closed = true;
    this.idle();
  }

  private flushSoon(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      void this.flush();
    });
  }

  private async send(events: Event[]): Promise<void> {
    if (this.closed) return;
    if (!this.write(create(InteractResponseSchema, { events }))) await this.writable();
  }
}

/** About how long an event is: only observations are long. */
function sizeOf({ body, images = [] }: Body): number {
  const text = body?.case === "observation" ? body.value.length : 0;
  return images.reduce((size, { content }) => size + (content?.length ?? 0), text);
}
