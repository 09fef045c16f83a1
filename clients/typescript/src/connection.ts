// One stream to one server, kept alive across losses; it carries any number of episodes.
//
// Every command is kept until its event arrives. When the stream breaks, another is opened and all
// that waits is sent again under the same (episode_id, seq), which the protocol makes safe.

import { create } from "@bufbuild/protobuf";
import { createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { SecureClientSessionOptions } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";

import { AgentGymError, ConnectionLost } from "./errors.js";
import {
  CommandSchema,
  EnvironmentService,
  InteractRequestSchema,
  type Command,
  type Event,
  type GetEnvironmentResponse,
  type InteractRequest,
  type TaskSummary,
} from "./gen/agentgym/env/v1/environment_pb.js";

const CONTRACT_REVISION = 1;
/** Commands of a message (R3). */
const MAX_ITEMS = 128;
/** Of commands whose seq is ignored: their answers answer nothing else. */
const NO_SEQ = 2n ** 64n - 1n;
const BACKOFF_MS = [50, 100, 200, 500, 1000];
/** Streams that may break in a row while a command waits. */
const MAX_BREAKS = 16;
const PAGE_SIZE = 1000;

export interface ConnectionOptions {
  /** Sent as `authorization: Bearer TOKEN`; only over TLS or to this machine. */
  token?: string;
  /** TLS, with the certificates of Node's `tls.connect`; `true` = those of the system. */
  tls?: boolean | Pick<SecureClientSessionOptions, "ca" | "cert" | "key">;
  /** How long a lost server is waited for; default 30 s. */
  connectDeadlineMs?: number;
}

/** The part of an episode that a connection needs. */
export interface OpenEpisode {
  readonly id: string;
  /** The last seq whose event arrived. */
  readonly seq: bigint;
}

interface Waiting {
  command: Command;
  breaks: number;
  resolve: (event: Event) => void;
  reject: (error: Error) => void;
}

/** Commands on their way into one stream. */
class Outbox {
  private queue: Command[] = [];
  private closed = false;
  private wake: () => void = () => {};

  push(command: Command): void {
    this.queue.push(command);
    this.wake();
  }

  close(): void {
    this.closed = true;
    this.wake();
  }

  async *messages(): AsyncGenerator<InteractRequest> {
    while (!this.closed) {
      if (this.queue.length > 0) {
        yield create(InteractRequestSchema, { commands: this.queue.splice(0, MAX_ITEMS) });
      } else {
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    }
  }
}

export class Connection {
  /** The unary calls, as they are generated. */
  readonly service: Client<typeof EnvironmentService>;
  /** Times that a broken stream was opened again. */
  reconnects = 0;

  private readonly waiting = new Map<string, Waiting>();
  private readonly episodes = new Map<string, OpenEpisode>();
  private readonly deadlineMs: number;
  private readonly stop = new AbortController();
  private outbox: Outbox | undefined;
  private failure: Error | undefined;
  private readonly running: Promise<void>;

  /** `address` is HOST:PORT. Nothing waits for the server before the first command. */
  constructor(
    readonly address: string,
    options: ConnectionOptions = {},
  ) {
    const { token, tls } = options;
    requireSafe(address, token, tls);
    const authorize: Interceptor = (next) => (request) => {
      if (token) request.header.set("authorization", `Bearer ${token}`);
      return next(request);
    };
    const transport = createGrpcTransport({
      baseUrl: `${tls ? "https" : "http"}://${address}`,
      interceptors: [authorize],
      pingIntervalMs: 20_000,
      pingTimeoutMs: 10_000,
      ...(typeof tls === "object" && { nodeOptions: tls }),
    });
    this.service = createClient(EnvironmentService, transport);
    this.deadlineMs = options.connectDeadlineMs ?? 30_000;
    this.running = this.run();
  }

  /** Names of the environments that the server hosts. */
  async environments(): Promise<string[]> {
    return (await called(this.service.listEnvironments({}))).environments;
  }

  /** Everything that a client has to know of one environment. */
  describe(environment: string): Promise<GetEnvironmentResponse> {
    const request = { environment, contractRevision: CONTRACT_REVISION };
    return called(this.service.getEnvironment(request));
  }

  /** The tasks of a split in their order. */
  async *tasks(environment: string, split = "eval"): AsyncGenerator<TaskSummary> {
    let pageToken = "";
    do {
      const request = { environment, split, pageSize: PAGE_SIZE, pageToken };
      const page = await called(this.service.listTasks(request));
      yield* page.tasks;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** End the stream. Episodes that are open live on under their leases. */
  async close(): Promise<void> {
    this.fail(new ConnectionLost(`the connection to ${this.address} was closed`));
    this.stop.abort();
    await this.running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Send a command until its event arrives; one of an episode at a time. */
  exchange(command: Command): Promise<Event> {
    if (this.failure) return Promise.reject(this.failure);
    if (this.waiting.has(command.episodeId)) {
      return Promise.reject(new Error(`episode ${command.episodeId}: a command is in flight`));
    }
    return new Promise((resolve, reject) => {
      this.waiting.set(command.episodeId, { command, breaks: 0, resolve, reject });
      this.outbox?.push(command);
    });
  }

  /** Keep an episode attached across streams. */
  register(episode: OpenEpisode): void {
    this.episodes.set(episode.id, episode);
  }

  unregister(episode: OpenEpisode): void {
    this.episodes.delete(episode.id);
  }

  private async run(): Promise<void> {
    let lostSince = Date.now();
    for (let attempt = 0; !this.failure; attempt++) {
      let cause: unknown = "the server ended the stream";
      const outbox = new Outbox();
      try {
        const stream = this.service.interact(outbox.messages(), { signal: this.stop.signal });
        for await (const { events } of stream) {
          if (!this.outbox) {
            this.begin(outbox);
            attempt = 0;
          }
          events.forEach((event) => this.receive(event));
        }
      } catch (error) {
        cause = error;
      }
      outbox.close();
      if (this.outbox) {
        this.outbox = undefined;
        lostSince = Date.now();
        this.reconnects++;
        this.countBreak(cause);
      }
      const refused = AgentGymError.fromCall(cause);
      if (refused.reason === "UNAUTHENTICATED") this.fail(refused);
      if (Date.now() - lostSince > this.deadlineMs) {
        this.fail(new ConnectionLost(`no server at ${this.address}: ${String(cause)}`));
      }
      if (!this.failure) await sleep(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)]);
    }
  }

  /** The stream's first event, its credits, arrived: send all that waits. */
  private begin(outbox: Outbox): void {
    this.outbox = outbox;
    for (const { command } of this.waiting.values()) outbox.push(command);
    for (const { id, seq } of this.episodes.values()) {
      if (this.waiting.has(id)) continue;
      const body = { case: "attach" as const, value: { lastSeqSeen: seq } };
      outbox.push(create(CommandSchema, { episodeId: id, seq: NO_SEQ, body }));
    }
  }

  private receive(event: Event): void {
    const waiting = this.waiting.get(event.episodeId);
    if (waiting?.command.seq !== event.seq) return; // credits, and answers of attach
    this.waiting.delete(event.episodeId);
    waiting.resolve(event);
  }

  private countBreak(cause: unknown): void {
    for (const [id, waiting] of this.waiting) {
      if (++waiting.breaks < MAX_BREAKS) continue;
      this.waiting.delete(id);
      const times = `${MAX_BREAKS} streams in a row`;
      waiting.reject(new ConnectionLost(`episode ${id}: ${times} broke: ${String(cause)}`));
    }
  }

  private fail(error: Error): void {
    this.failure ??= error;
    for (const waiting of this.waiting.values()) waiting.reject(this.failure);
    this.waiting.clear();
  }
}

async function called<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const refused = AgentGymError.fromCall(error);
    throw refused.reason === "UNSPECIFIED" ? new ConnectionLost(refused.message) : refused;
  }
}

function requireSafe(address: string, token: string | undefined, tls: unknown): void {
  const host = address.replace(/:\d+$/, "");
  if (token && !tls && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(host)) {
    throw new Error(`a token is sent to ${host} only over TLS: set the option tls`);
  }
}
