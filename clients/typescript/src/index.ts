export { Connection, type ConnectionOptions } from "./connection.js";
export { Episode, type Task, type Transition } from "./episode.js";
export { AgentGymError, ConnectionLost, type Reason } from "./errors.js";
export { Advisor, type Advice, type TaskSummary } from "./gen/agentgym/env/v1/environment_pb.js";
export { ActionFormat, StopReason } from "./gen/agentgym/env/v1/types_pb.js";
