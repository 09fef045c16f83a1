// What can go wrong: the server refuses a command, or there is no server.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <grpcpp/support/status.h>

#include "agentgym/env/v1/environment.pb.h"
#include "google/rpc/status.pb.h"

namespace agentgym {

namespace pb = ::agentgym::env::v1;

// No AgentGym server answers at the address, or streams break again and again.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A server refused a command; docs/protocol.md says for each reason what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const google::rpc::Status& status);

  // ERROR_REASON_UNSPECIFIED where the answer does not come from an AgentGym server.
  pb::ErrorReason reason = pb::ERROR_REASON_UNSPECIFIED;
  // Who is to blame.
  pb::Fault fault = pb::FAULT_UNSPECIFIED;
  // Whether the same command, sent again, can succeed.
  bool retriable = false;
  // What the reason's row in docs/protocol.md lists.
  std::map<std::string, std::string> metadata;
  // How long the server asks to wait before that.
  std::optional<std::chrono::milliseconds> retry_after;
};

// Throws what a call failed with: an Error where an AgentGym server gave it, else ConnectionLost.
void RequireOk(const grpc::Status& status);

}  // namespace agentgym
