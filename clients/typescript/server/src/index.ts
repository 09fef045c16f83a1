export { type NamedToken, type Scope } from "./clients.js";
export {
  ActionFormat,
  InvalidOption,
  Metric,
  StopReason,
  type Advice,
  type ConversationStart,
  type Environment,
  type EnvironmentSpec,
  type Image,
  type Observation,
  type ResetOptions,
  type Split,
  type Task,
  type View,
} from "./environment.js";
export { Grammar, type Arguments, type Parameter, type Verb } from "./grammar.js";
export { DEFAULT_LIMITS, type Limits } from "./limits.js";
export { EnvironmentServer, type ServerOptions, type Tls } from "./server.js";
