#include "agentgym/episode.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace agentgym {
namespace {

// Rebuilds without a step between them.
constexpr int kMaxRebuilds = 8;
// How long a command is refused for want of room before its error is thrown.
constexpr std::chrono::seconds kPatience{60};
// Between two attempts where the server does not say.
constexpr std::chrono::milliseconds kRoomWait{500};

// 128 bits of the system's randomness, in hexadecimal.
std::string NewId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", random());
    id += part;
  }
  return id;
}

// Waits where that can help, else throws the error.
void WaitFor(const Error& refused, std::chrono::steady_clock::time_point until) {
  const bool worth_waiting = refused.reason == pb::ERROR_REASON_CAPACITY_EXHAUSTED ||
                             refused.reason == pb::ERROR_REASON_CREDITS_EXCEEDED ||
                             refused.reason == pb::ERROR_REASON_DRAINING;
  const auto delay = refused.retry_after.value_or(kRoomWait);
  if (!worth_waiting || std::chrono::steady_clock::now() + delay > until) throw refused;
  std::this_thread::sleep_for(delay);
}

Transition ToTransition(const pb::Event& event) {
  if (event.body_case() != pb::Event::kObservation) {
    throw std::runtime_error("the server answered without an observation");
  }
  Transition it;
  it.seq = event.seq();
  it.observation = event.observation();
  if (event.has_reward()) it.reward = event.reward();
  if (event.has_score()) it.score = event.score();
  it.terminated = event.terminated();
  it.truncated = event.truncated();
  it.stop_reason = event.stop_reason();
  if (event.has_parsed_action()) it.parsed_action = event.parsed_action();
  return it;
}

}  // namespace

Episode::Episode(Connection& connection, pb::Reset reset)
    : connection_(connection), id_(NewId()), reset_(std::move(reset)) {
  pb::Command command;
  *command.mutable_reset() = reset_;
  const pb::Event event = Send(std::move(command));
  start_ = ToTransition(event);
  reset_.set_initial_state_hash(event.state_hash());
  connection_.Attach(id_, 0);
}

Transition Episode::Step(const std::string& action) {
  pb::Command command;
  pb::ActionInput input;
  command.set_action(action);
  input.set_action(action);
  return Apply(std::move(command), std::move(input));
}

Transition Episode::StepReply(const std::string& reply, pb::ActionFormat format) {
  pb::Command command;
  pb::ActionInput input;
  command.set_reply(reply);
  command.set_action_format(format);
  input.set_reply(reply);
  input.set_action_format(format);
  return Apply(std::move(command), std::move(input));
}

Transition Episode::StepCall(const std::string& name, const std::string& arguments_json) {
  pb::Command command;
  pb::ActionInput input;
  pb::ToolCall* call = command.mutable_tool_call();
  call->set_name(name);
  call->set_arguments_json(arguments_json);
  *input.mutable_tool_call() = *call;
  return Apply(std::move(command), std::move(input));
}

pb::Advice Episode::Advice(pb::Advisor advisor, std::uint64_t seed) {
  pb::Command command;
  command.set_seq(seq_);
  command.mutable_consult()->set_advisor(advisor);
  command.mutable_consult()->set_seed(seed);
  return Send(std::move(command)).advice();
}

void Episode::Heartbeat() {
  pb::Command command;
  command.set_seq(seq_);
  command.mutable_heartbeat();
  Send(std::move(command));
}

void Episode::Close() {
  connection_.Detach(id_);
  pb::Command command;
  command.set_seq(seq_);
  command.mutable_close();
  Send(std::move(command));
}

Transition Episode::Apply(pb::Command command, pb::ActionInput input) {
  command.set_seq(seq_ + 1);
  const pb::Event event = Send(std::move(command));
  Transition transition = ToTransition(event);
  pb::JournalEntry* entry = reset_.add_journal();
  *entry->mutable_input() = std::move(input);
  entry->set_state_hash(event.state_hash());
  ++seq_;
  connection_.Attach(id_, seq_);
  return transition;
}

// Sends a command until it is answered, through losses of streams and servers.
pb::Event Episode::Send(pb::Command command) {
  const auto until = Clock::now() + kPatience;
  command.set_episode_id(id_);
  for (;;) {
    pb::Event event = connection_.Exchange(command);
    if (!event.has_error()) {
      rebuilds_in_a_row_ = 0;
      return event;
    }
    const Error refused(event.error());
    if (!command.has_reset() && IsBehind(refused) && rebuilds_in_a_row_ < kMaxRebuilds) {
      Rebuild(refused, until);
    } else {
      WaitFor(refused, until);
    }
  }
}

// Whether the server does not know the episode, or only an older state of it.
bool Episode::IsBehind(const Error& refused) const {
  if (refused.reason == pb::ERROR_REASON_EPISODE_NOT_FOUND) return true;
  if (refused.reason != pb::ERROR_REASON_SEQ_GAP) return false;
  const auto expected = refused.metadata.find("expected");
  if (expected == refused.metadata.end()) return false;
  const std::string& text = expected->second;
  std::uint64_t seq = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seq);
  return failure == std::errc() && end == text.data() + text.size() && seq <= seq_;
}

// Opens the episode again where it was; the server checks every hash.
void Episode::Rebuild(const Error& lost, Clock::time_point until) {
  ++rebuilds_;
  ++rebuilds_in_a_row_;
  pb::Command command;
  command.set_episode_id(id_);
  command.set_seq(seq_);
  *command.mutable_reset() = reset_;
  for (;;) {
    const pb::Event event = connection_.Exchange(command);
    if (!event.has_error()) return;
    const Error refused(event.error());
    // An environment that is not deterministic: the episode is gone.
    if (refused.reason == pb::ERROR_REASON_UNSUPPORTED_CAPABILITY) throw lost;
    WaitFor(refused, until);
  }
}

}  // namespace agentgym
