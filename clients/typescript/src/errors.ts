// What can go wrong: the server refuses a command, or there is no server.

import { ConnectError } from "@connectrpc/connect";
import { anyUnpack } from "@bufbuild/protobuf/wkt";

import { ErrorReason } from "./gen/agentgym/env/v1/environment_pb.js";
import { Fault } from "./gen/agentgym/env/v1/types_pb.js";
import { ErrorInfoSchema, RetryInfoSchema, type RetryInfo } from "./gen/google/rpc/error_details_pb.js";
import type { Status } from "./gen/google/rpc/status_pb.js";

const DOMAIN = "agentgym.env";

/** An `ErrorReason` without its prefix, for example `"SEQ_CONFLICT"`. */
export type Reason = keyof typeof ErrorReason;

/** A server refused a command; docs/protocol.md says for each reason what to do. */
export class AgentGymError extends Error {
  override readonly name = "AgentGymError";

  constructor(
    message: string,
    /** `"UNSPECIFIED"` where the answer does not come from an AgentGym server. */
    readonly reason: Reason,
    /** Who is to blame. */
    readonly fault: keyof typeof Fault,
    /** Whether the same command, sent again, can succeed. */
    readonly retriable: boolean,
    /** What the reason's row in docs/protocol.md lists. */
    readonly metadata: Readonly<Record<string, string>>,
    /** How long the server asks to wait before that. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }

  /** The error that an event carries. */
  static fromStatus(status: Status): AgentGymError {
    let info, retry;
    for (const detail of status.details) {
      info ??= anyUnpack(detail, ErrorInfoSchema);
      retry ??= anyUnpack(detail, RetryInfoSchema);
    }
    return build(status.message, info, retry);
  }

  /** The error of a unary call. */
  static fromCall(error: unknown): AgentGymError {
    const call = ConnectError.from(error);
    const [info] = call.findDetails(ErrorInfoSchema);
    const [retry] = call.findDetails(RetryInfoSchema);
    return build(call.rawMessage, info, retry);
  }
}

/** No AgentGym server answers at the address, or streams break again and again. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

function build(
  message: string,
  info: { domain: string; reason: string; metadata: Record<string, string> } | undefined,
  retry: RetryInfo | undefined,
): AgentGymError {
  const ours = info?.domain === DOMAIN;
  const metadata = ours ? info.metadata : {};
  const reason = ours && info.reason in ErrorReason ? (info.reason as Reason) : "UNSPECIFIED";
  const fault = metadata["fault"];
  const delay = retry?.retryDelay;
  return new AgentGymError(
    `${reason}: ${message}`,
    reason,
    fault !== undefined && fault in Fault ? (fault as keyof typeof Fault) : "UNSPECIFIED",
    metadata["retriable"] === "true",
    metadata,
    delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6,
  );
}
