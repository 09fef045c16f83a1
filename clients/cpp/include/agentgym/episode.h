// An episode on a server: reset, step, and surviving the loss of that server.
//
// It keeps its inputs (the journal) and the state hash after each. Where the server no longer knows
// the episode it is opened again with the journal; every hash must come out again (R26, R27).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "agentgym/connection.h"

namespace agentgym {

// What a reset or a step led to.
struct Transition {
  std::uint64_t seq = 0;
  std::string observation;
  // Absent = not scored; never 0 for a failure.
  std::optional<double> reward;
  // What the episode would score if it ended here.
  std::optional<double> score;
  bool terminated = false;
  bool truncated = false;
  pb::StopReason stop_reason = pb::STOP_REASON_UNSPECIFIED;
  // The native action that the server read in a reply; absent when it was unreadable.
  std::optional<std::string> parsed_action;

  // Whether the episode takes no more steps.
  bool ended() const { return terminated || truncated; }
};

// For one thread at a time. Everything but the getters throws Error and ConnectionLost.
class Episode {
 public:
  // Opens an episode of the task that `reset` describes.
  Episode(Connection& connection, pb::Reset reset);

  // What the reset led to.
  const Transition& start() const { return start_; }
  // Applies a native action.
  Transition Step(const std::string& action);
  // Applies a model's whole reply; the server reads the action in it.
  Transition StepReply(const std::string& reply,
                       pb::ActionFormat format = pb::ACTION_FORMAT_UNSPECIFIED);
  // Applies a function call; `arguments_json` is a JSON object.
  Transition StepCall(const std::string& name, const std::string& arguments_json);
  // Asks a scripted player what it would do in this state; changes nothing.
  pb::Advice Advice(pb::Advisor advisor = pb::ADVISOR_EXPERT, std::uint64_t seed = 0);
  // Keeps the server from ending an episode whose agent thinks for minutes.
  void Heartbeat();
  // Ends the episode on the server.
  void Close();

  // One that nobody can guess.
  const std::string& id() const { return id_; }
  // The state it is in: the number of its steps.
  std::uint64_t seq() const { return seq_; }
  // Times that it was opened again with its journal.
  int rebuilds() const { return rebuilds_; }

 private:
  using Clock = std::chrono::steady_clock;

  Transition Apply(pb::Command command, pb::ActionInput input);
  pb::Event Send(pb::Command command);
  bool IsBehind(const Error& refused) const;
  void Rebuild(const Error& lost, Clock::time_point until);

  Connection& connection_;
  const std::string id_;
  pb::Reset reset_;  // with the journal so far
  std::uint64_t seq_ = 0;
  int rebuilds_ = 0;
  int rebuilds_in_a_row_ = 0;
  Transition start_;
};

}  // namespace agentgym
