// The calls of EnvironmentService on grpc-js: the stream, unary commands, and questions.

import { randomBytes, createHash } from "node:crypto";
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";

import { create, fromBinary, toBinary, type DescMethod, type DescMessage } from "@bufbuild/protobuf";
import {
  Metadata,
  status as Code,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";

import type { Clients } from "./clients.js";
import { toCommandError, type Commands } from "./commands.js";
import type { EnvironmentSpec } from "./environment.js";
import { CommandError, invalidArgument, lacksCapability, unknown } from "./errors.js";
import {
  Capability,
  CommandSchema,
  EnvironmentService,
  Metric,
  type Command,
  type Event,
  type GetEnvironmentRequest,
  type GetEnvironmentResponse,
  type InteractRequest,
  type InteractResponse,
  type ListEpisodesRequest,
  type ListEpisodesResponse,
  type ListTasksRequest,
  type ListTasksResponse,
  type RenderRequest,
  type RenderResponse,
} from "./gen/agentgym/env/v1/environment_pb.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";
import { CONTRACT_REVISION, type Limits } from "./limits.js";
import { findTask, isDeterministic } from "./opening.js";
import { Session } from "./session.js";

type Plain<T> = Omit<T, "$typeName" | "$unknown">;
type Initial<T> = { [K in keyof Plain<T>]?: unknown };

const SERVER_VERSION = "agentgym-server 0.1.0 (TypeScript)";
const ACKNOWLEDGEMENT =
  "OK. I'll follow your instructions and try my best to solve the task.";
const MAX_PAGE = 10_000;
const DEFAULT_PAGE = 1000;
const MAX_NAMED_ITEMS = 1000;
/** Commands of one message after which other streams have their turn. */
const COMMANDS_IN_A_ROW = 512;

/** The service as grpc-js registers it, with protobuf-es' messages. */
export const definition: ServiceDefinition = Object.fromEntries(
  EnvironmentService.methods.map((method: DescMethod) => [
    method.name,
    {
      path: `/${EnvironmentService.typeName}/${method.name}`,
      requestStream: method.methodKind === "bidi_streaming",
      responseStream: method.methodKind === "bidi_streaming",
      ...serialization("request", method.input),
      ...serialization("response", method.output),
    },
  ]),
) as unknown as ServiceDefinition;

function serialization(side: "request" | "response", schema: DescMessage): object {
  return {
    [`${side}Serialize`]: (message: Initial<never>) =>
      Buffer.from(toBinary(schema, create(schema, message))),
    [`${side}Deserialize`]: (bytes: Buffer) => fromBinary(schema, bytes),
  };
}

export class Service {
  /** Names this run of the program. */
  private readonly instance = randomBytes(8).toString("hex");
  private readonly streams = new Set<Session>();
  private readonly stop = new AbortController();

  constructor(
    private readonly commands: Commands,
    private readonly clients: Clients,
    private readonly limits: Limits,
  ) {}

  implementation(): UntypedServiceImplementation {
    const command = (call: UnaryCommand) => this.answerOne(call, call.request.command);
    return {
      Interact: (call: Stream) => void this.interact(call),
      Reset: unary(command),
      Step: unary(command),
      Close: unary((call: UnaryCommand) => {
        const { command } = call.request;
        const body = { case: "close" as const, value: {} };
        return this.answerOne(call, create(CommandSchema, { ...command, body } as Command));
      }),
      Render: unary((call: Unary<RenderRequest>) => this.render(call)),
      ListEnvironments: unary(() => ({
        environments: this.commands.environments.names,
        contractRevisions: [CONTRACT_REVISION],
        serverVersion: SERVER_VERSION,
      })),
      GetEnvironment: unary((call: Unary<GetEnvironmentRequest>) => this.describe(call.request)),
      ListTasks: unary((call: Unary<ListTasksRequest>) => this.listTasks(call.request)),
      ListEpisodes: unary((call: Unary<ListEpisodesRequest>) => this.listEpisodes(call)),
    };
  }

  /** End every stream, after what is outstanding was answered. */
  endStreams(): void {
    this.stop.abort();
  }

  private async interact(call: Stream): Promise<void> {
    let session: Session;
    try {
      const client = this.clients.inScope(call.metadata, "play");
      const write = (response: InteractResponse) => call.write(response);
      const writable = () => untilWritable(call);
      session = new Session(client, accountOf(client.name, call), this.limits, write, writable);
    } catch (error) {
      call.emit("error", callError(toCommandError(error)));
      return;
    }
    this.streams.add(session);
    const credits = { maxInFlight: this.limits.maxInFlight, instance: this.instance };
    const first = { episodeId: "", seq: 0n };
    session.answer(first, { body: { case: "credits", value: credits } });
    await session.flush();
    let taken = Promise.resolve();
    const end = () => {
      call.pause();
      void taken.then(() => session.finish()).then(() => call.end());
    };
    call.on("data", (request: InteractRequest) => {
      call.pause();
      taken = this.take(session, request).then(() => void call.resume());
    });
    call.on("end", end);
    this.stop.signal.addEventListener("abort", end);
    call.on("error", () => {}); // a stream that broke: `close` follows
    call.on("close", () => {
      this.stop.signal.removeEventListener("abort", end);
      this.streams.delete(session);
      this.commands.detach(session);
    });
    call.on("cancelled", () => this.commands.detach(session));
  }

  /** Answer a message's commands; a client that does not read is not read either. */
  private async take(session: Session, { commands }: InteractRequest): Promise<void> {
    for (const [at, command] of commands.entries()) {
      this.commands.handle(session, command);
      if (session.isBacklogged || at % COMMANDS_IN_A_ROW === COMMANDS_IN_A_ROW - 1) {
        await session.flush();
        await turn();
      }
    }
    await session.flush();
  }

  /** One command, as on a stream of its own; its error is the call's. */
  private async answerOne(call: Unary<unknown>, command: Command | undefined) {
    const client = this.clients.inScope(call.metadata, "play");
    const events: Event[] = [];
    const keep = ({ events: answered }: InteractResponse) => events.push(...answered) > 0;
    const session = new Session(client, accountOf(client.name, call), this.limits, keep);
    this.commands.handle(session, command ?? create(CommandSchema));
    await session.finish();
    this.commands.detach(session);
    const event = events.at(-1);
    if (event?.body.case === "error") throw new StatusError(event.body.value);
    return { event };
  }

  private async render(call: Unary<RenderRequest>): Promise<Initial<RenderResponse>> {
    const client = this.clients.inScope(call.metadata, "play");
    const [episode, views] = await this.commands.render(call.request.episodeId, client);
    const { stateHash } = episode.result(episode.seq);
    const contents = views.map((view) => ({ ...view, content: Buffer.from(view.content) }));
    return { seq: BigInt(episode.seq), stateHash, views: contents };
  }

  // -------------------------------------------------------------------- questions

  private describe(request: GetEnvironmentRequest): Initial<GetEnvironmentResponse> {
    const { contractRevision, requiredCapabilities } = request;
    if (contractRevision !== 0 && contractRevision !== CONTRACT_REVISION) {
      const message = `the client speaks contract revision ${contractRevision}`;
      throw new CommandError("CONTRACT_REVISION_UNSUPPORTED", message, {
        client_revision: contractRevision,
        server_revisions: CONTRACT_REVISION,
      });
    }
    const spec = this.commands.environments.find(request.environment);
    const capabilities = capabilitiesOf(spec);
    const lacking = requiredCapabilities.find((it) => !capabilities.includes(it));
    if (lacking !== undefined) {
      const name = (Capability[lacking] as string | undefined) ?? String(lacking);
      throw lacksCapability(`environment ${spec.name} lacks the capability ${name}`, name);
    }
    return { ...description(spec), capabilities, limits: this.limitsMessage() };
  }

  private limitsMessage(): object {
    const { maxTextBytes, maxMessageBytes, maxEpisodes, maxEpisodesPerClient } = this.limits;
    const { maxJournalBytes, maxImageBytes, maxImagesBytes } = this.limits;
    return {
      ...this.limits,
      maxTextBytes: BigInt(maxTextBytes),
      maxMessageBytes: BigInt(maxMessageBytes),
      maxEpisodes: BigInt(maxEpisodes),
      maxEpisodesPerClient: BigInt(maxEpisodesPerClient),
      maxJournalBytes: BigInt(maxJournalBytes),
      maxImageBytes: BigInt(maxImageBytes),
      maxImagesBytes: BigInt(maxImagesBytes),
    };
  }

  private listTasks(request: ListTasksRequest): Initial<ListTasksResponse> {
    const spec = this.commands.environments.find(request.environment);
    const summary = (index: number) => ({
      itemId: `${spec.name}_${index}`,
      category: spec.category?.(index) ?? "",
    });
    const { itemIds } = request;
    if (itemIds.length > MAX_NAMED_ITEMS) {
      const message = `at most ${MAX_NAMED_ITEMS} items can be asked for at once`;
      throw invalidArgument("item_ids", message);
    }
    if (itemIds.length) {
      const tasks = itemIds.map((itemId) => summary(findTask(spec, itemId).index));
      return { tasks, totalSize: BigInt(tasks.length) };
    }
    const split = Object.hasOwn(spec.splits, request.split) && spec.splits[request.split];
    if (!split) {
      const message = `${spec.name} has no split ${JSON.stringify(request.split)}`;
      throw unknown("UNKNOWN_SPLIT", message, Object.keys(spec.splits).join(", "));
    }
    const { start, stop, nextPageToken } = page(request, split.size);
    const length = Math.max(0, stop - start);
    const tasks = Array.from({ length }, (_, at) => summary(split.first + start + at));
    return { tasks, nextPageToken, totalSize: BigInt(split.size) };
  }

  private listEpisodes({ metadata, request }: Unary<ListEpisodesRequest>) {
    const client = this.clients.of(metadata);
    const seesAll = client.scopes.has("operate");
    const episodes = [...this.commands.episodes.values()].filter(
      ({ client: { name }, game }) =>
        (seesAll || name === client.name) &&
        (!request.environment || request.environment === game.spec.name),
    );
    const { start, stop, nextPageToken } = page(request, episodes.length);
    const summaries = episodes.slice(start, stop).map((episode) => ({
      episodeId: episode.id,
      environment: episode.game.spec.name,
      itemId: episode.opening.task.itemId,
      seq: BigInt(episode.seq),
      ended: episode.ended,
      inFlight: episode.inFlight !== undefined,
      idleMs: BigInt(Math.max(0, Date.now() - episode.lastUsed)),
      attached: episode.session !== undefined,
    }));
    const totalSize = BigInt(episodes.length);
    return { episodes: summaries, nextPageToken, totalSize } satisfies Initial<ListEpisodesResponse>;
  }
}

type Stream = ServerDuplexStream<InteractRequest, InteractResponse>;
type Unary<T> = ServerUnaryCall<T, unknown>;
type UnaryCommand = Unary<{ command?: Command }>;

/** An error that is a status already. */
class StatusError extends Error {
  constructor(readonly status: ReturnType<CommandError["toStatus"]>) {
    super(status.message);
  }
}

/** A status as grpc-js sends it, with the details in the trailer. */
export function callError(error: CommandError | StatusError) {
  const status = error instanceof StatusError ? error.status : error.toStatus();
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, status)));
  return { code: status.code as Code, details: status.message, metadata };
}

function unary<T>(answer: (call: Unary<T>) => object | Promise<object>) {
  return (call: Unary<T>, callback: sendUnaryData<unknown>): void => {
    void (async () => {
      try {
        callback(null, await answer(call));
      } catch (error) {
        callback(callError(error instanceof StatusError ? error : toCommandError(error)));
      }
    })();
  };
}

let unnamedCalls = 0;

/** A client by name, else its connection; those of a Unix socket cannot be told apart. */
function accountOf(name: string, call: Stream | Unary<unknown>): string {
  if (name) return `client ${name}`;
  const peer = call.getPeer();
  return /:\d+$/.test(peer) ? `peer ${peer}` : `call ${++unnamedCalls}`;
}

async function untilWritable(call: Stream): Promise<void> {
  if (call.destroyed || call.cancelled) return;
  const over = new AbortController();
  const { signal } = over;
  const events = ["drain", "close", "cancelled"].map((event) => once(call, event, { signal }));
  await Promise.race(events.map((event) => event.catch(() => {}))); // aborted, or broken: no matter
  over.abort();
}

function page(
  { pageToken, pageSize }: { pageToken: string; pageSize: number },
  size: number,
): { start: number; stop: number; nextPageToken: string } {
  if (!/^\d{0,15}$/.test(pageToken)) {
    throw invalidArgument("page_token", "page_token is none that this server gave");
  }
  const start = Math.min(Number(pageToken), size);
  const stop = Math.min(start + Math.min(pageSize || DEFAULT_PAGE, MAX_PAGE), size);
  return { start, stop, nextPageToken: stop < size ? String(stop) : "" };
}

function capabilitiesOf(spec: EnvironmentSpec): Capability[] {
  const { adviseExpert, fork, render } = spec.create();
  const deterministic = isDeterministic(spec);
  const has: [unknown, Capability][] = [
    [deterministic, Capability.DETERMINISTIC],
    [fork ?? deterministic, Capability.FORK],
    [adviseExpert, Capability.EXPERT],
    [spec.hasScore, Capability.SCORE],
    [render, Capability.RENDER],
    [spec.hasImages, Capability.IMAGES],
  ];
  return has.filter(([it]) => it).map(([, capability]) => capability);
}

function description(spec: EnvironmentSpec): Initial<GetEnvironmentResponse> {
  const { name, version, profiles = ["default"], splits } = spec;
  const digest = createHash("sha256").update(JSON.stringify([name, version, splits]));
  return {
    name,
    version,
    digest: digest.digest("hex").slice(0, 16),
    contractRevision: CONTRACT_REVISION,
    description: spec.description,
    actionFormats: spec.conversationStarts.map(([format]) => format),
    profiles: [...profiles],
    splits: Object.entries(splits).map(([name, { size }]) => ({ name, size: BigInt(size) })),
    metric: spec.metric ?? Metric.SUCCESS_RATE,
    successScore: spec.successScore ?? 1,
    maxRounds: spec.maxRounds,
    conversationStarts: spec.conversationStarts.map(([actionFormat, start]) => ({
      actionFormat,
      acknowledgement: ACKNOWLEDGEMENT,
      ...start,
    })),
    functionsJson: spec.grammar.functionsJson(),
  };
}
