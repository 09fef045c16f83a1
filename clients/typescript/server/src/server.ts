// A server of environments: gRPC, health, reflection, credentials, draining.

import { create, toBinary, type DescFile } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import {
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  ServerListenerBuilder,
  type ServerInterceptor,
} from "@grpc/grpc-js";
import { loadFileDescriptorSetFromBuffer } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation } from "grpc-health-check";
import { setTimeout as sleep } from "node:timers/promises";

import { Clients, type NamedToken } from "./clients.js";
import { Commands, toCommandError } from "./commands.js";
import type { EnvironmentSpec } from "./environment.js";
import { EnvironmentService } from "./gen/agentgym/env/v1/environment_pb.js";
import { DEFAULT_LIMITS, type Limits } from "./limits.js";
import { Environments } from "./opening.js";
import { callError, definition, Service } from "./service.js";

const REAP_MS = 500;
const DRAIN_POLL_MS = 50;
/** How long clients may still read what they were answered. */
const GOODBYE_MS = 2000;

export interface Tls {
  cert: Buffer;
  key: Buffer;
}

export interface ServerOptions {
  /** HOST:PORT (port 0 = a free one) or unix:PATH. */
  address?: string;
  limits?: Partial<Limits>;
  /** Admits to everything. */
  token?: string;
  /** Tokens that tell clients apart, by the clients' names. */
  tokens?: Readonly<Record<string, NamedToken>>;
  tls?: Tls;
  /** Plain text on an address that is not this machine's alone. */
  insecure?: boolean;
}

/** A server that listens. */
export class EnvironmentServer {
  private constructor(
    /** HOST:PORT as it was bound. */
    readonly address: string,
    private readonly server: Server,
    private readonly service: Service,
    private readonly commands: Commands,
    private readonly setHealth: (status: "SERVING" | "NOT_SERVING") => void,
  ) {
    setHealth("SERVING");
    this.reaper = setInterval(() => commands.reap(), REAP_MS);
  }

  private readonly reaper: NodeJS.Timeout;

  /** Serve environments; rejects where the address is taken or would be open to everybody. */
  static async start(
    specs: readonly EnvironmentSpec[],
    options: ServerOptions = {},
  ): Promise<EnvironmentServer> {
    const { address = "127.0.0.1:50051", token, tokens, tls } = options;
    requireSafe(address, options);
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    const commands = new Commands(new Environments(specs, limits), limits);
    const clients = new Clients(token, tokens);
    const service = new Service(commands, clients, limits);
    const server = new Server({
      "grpc.max_receive_message_length": limits.maxMessageBytes,
      "grpc.max_send_message_length": -1,
      interceptors: [authorization(clients)],
    });
    server.addService(definition, service.implementation());
    const health = new HealthImplementation();
    health.addToServer(server);
    new ReflectionService(loadFileDescriptorSetFromBuffer(contract())).addToServer(server);
    const credentials = tls
      ? ServerCredentials.createSsl(null, [{ cert_chain: tls.cert, private_key: tls.key }])
      : ServerCredentials.createInsecure();
    const port = await bind(server, address, credentials);
    const bound = address.startsWith("unix:") ? address : address.replace(/:\d+$/, `:${port}`);
    const names = ["", EnvironmentService.typeName, ...specs.map(({ name }) => name)];
    return new EnvironmentServer(bound, server, service, commands, (status) => {
      for (const name of names) health.setStatus(name, status);
    });
  }

  /** Open no more episodes, let attached ones end for so long, then end (R48). */
  async drain(patienceMs = 30_000): Promise<void> {
    this.setHealth("NOT_SERVING");
    this.commands.admission.draining = true;
    const until = Date.now() + patienceMs;
    while (this.commands.isBusy && Date.now() < until) await sleep(DRAIN_POLL_MS);
    this.service.endStreams();
    const over = new Promise<void>((resolve) => this.server.tryShutdown(() => resolve()));
    await Promise.race([over, sleep(GOODBYE_MS, undefined, { ref: false })]);
    this.server.forceShutdown();
    clearInterval(this.reaper);
  }
}

function bind(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
}

/** Refuse every call, whatever its service, that shows no token that is known. */
function authorization(clients: Clients): ServerInterceptor {
  return (_, call) => {
    const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, next) => {
      try {
        clients.of(metadata);
      } catch (error) {
        call.sendStatus(callError(toCommandError(error)));
        return;
      }
      next(metadata);
    });
    return new ServerInterceptingCall(call, { start: (next) => next(listener.build()) });
  };
}

/** The contract with all that it imports, imports first. */
function contract(): Buffer {
  const files = new Map<string, DescFile>();
  const add = (file: DescFile): void => {
    if (files.has(file.name)) return;
    file.dependencies.forEach(add);
    files.set(file.name, file);
  };
  add(EnvironmentService.file);
  const set = create(FileDescriptorSetSchema, { file: [...files.values()].map((it) => it.proto) });
  return Buffer.from(toBinary(FileDescriptorSetSchema, set));
}

function requireSafe(address: string, { tls, insecure, token, tokens }: ServerOptions): void {
  const host = address.replace(/:\d+$/, "");
  const isLocal = address.startsWith("unix:") || /^(localhost|127\.[\d.]+|\[::1\])$/.test(host);
  if (!isLocal && !tls && !insecure) {
    const what = token ?? tokens ? "a token is sent to it" : "it is served";
    throw new Error(`${address} is not this machine's alone: ${what} only over TLS (option tls)`);
  }
}
