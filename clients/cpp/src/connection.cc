#include "agentgym/connection.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace agentgym {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kContractRevision = 1;
// Commands of a message (R3).
constexpr int kMaxItems = 128;
// Of commands whose seq is ignored: their answers answer nothing else.
constexpr std::uint64_t kNoSeq = std::numeric_limits<std::uint64_t>::max();
// Streams that may break in a row while a command waits.
constexpr int kMaxBreaks = 16;
constexpr std::uint32_t kPageSize = 1000;
constexpr milliseconds kBackoff[] = {milliseconds(50), milliseconds(100), milliseconds(200),
                                     milliseconds(500), milliseconds(1000)};

bool IsLocal(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address, const Options& options) {
  if (!options.token.empty() && !options.tls && !IsLocal(address)) {
    throw std::invalid_argument("a token is sent to " + address + " only over TLS: set tls");
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetMaxReceiveMessageSize(-1);
  // Two connections of a program are two clients.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto credentials = options.tls ? options.tls : grpc::InsecureChannelCredentials();
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

Connection::Connection(std::string address, Options options)
    : address_(std::move(address)),
      options_(std::move(options)),
      service_(pb::EnvironmentService::NewStub(OpenChannel(address_, options_))),
      thread_([this] { Run(); }) {}

Connection::~Connection() {
  Fail(std::make_exception_ptr(ConnectionLost("the connection to " + address_ + " was closed")));
  thread_.join();
}

std::unique_ptr<grpc::ClientContext> Connection::NewContext() const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!options_.token.empty()) context->AddMetadata("authorization", "Bearer " + options_.token);
  return context;
}

std::vector<std::string> Connection::Environments() {
  pb::ListEnvironmentsResponse response;
  RequireOk(service_->ListEnvironments(NewContext().get(), {}, &response));
  return {response.environments().begin(), response.environments().end()};
}

pb::GetEnvironmentResponse Connection::Describe(const std::string& environment) {
  pb::GetEnvironmentRequest request;
  request.set_environment(environment);
  request.set_contract_revision(kContractRevision);
  pb::GetEnvironmentResponse response;
  RequireOk(service_->GetEnvironment(NewContext().get(), request, &response));
  return response;
}

std::vector<pb::TaskSummary> Connection::Tasks(const std::string& environment,
                                               const std::string& split, std::size_t limit) {
  pb::ListTasksRequest request;
  request.set_environment(environment);
  request.set_split(split);
  request.set_page_size(kPageSize);
  std::vector<pb::TaskSummary> tasks;
  do {
    pb::ListTasksResponse page;
    RequireOk(service_->ListTasks(NewContext().get(), request, &page));
    for (auto& task : *page.mutable_tasks()) {
      tasks.push_back(std::move(task));
      if (tasks.size() == limit) return tasks;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return tasks;
}

int Connection::reconnects() const {
  const std::lock_guard lock(mutex_);
  return reconnects_;
}

pb::Event Connection::Exchange(pb::Command command) {
  std::future<pb::Event> answer;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    const auto [entry, inserted] = waiting_.try_emplace(command.episode_id());
    if (!inserted) {
      throw std::logic_error("episode " + command.episode_id() + ": a command is in flight");
    }
    answer = entry->second.answer.get_future();
    if (open_) outbox_.push_back(command);
    entry->second.command = std::move(command);
  }
  changed_.notify_all();
  return answer.get();
}

void Connection::Attach(const std::string& episode_id, std::uint64_t seq) {
  const std::lock_guard lock(mutex_);
  attached_[episode_id] = seq;
}

void Connection::Detach(const std::string& episode_id) {
  const std::lock_guard lock(mutex_);
  attached_.erase(episode_id);
}

// Opens a stream again and again until the connection fails or is closed.
void Connection::Run() {
  auto lost_since = steady_clock::now();
  for (std::size_t attempt = 0;; ++attempt) {
    grpc::Status status;
    const bool opened = PlayStream(&status);
    const std::string cause = status.ok() ? "the server ended the stream" : status.error_message();
    if (opened) {
      attempt = 0;
      lost_since = steady_clock::now();
      CountBreak(cause);
    }
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      try {
        RequireOk(status);
      } catch (const std::runtime_error&) {
        return Fail(std::current_exception());
      }
    }
    if (steady_clock::now() - lost_since > options_.connect_deadline) {
      const std::string what = "no server at " + address_ + ": " + cause;
      return Fail(std::make_exception_ptr(ConnectionLost(what)));
    }
    if (!Pause(kBackoff[std::min(attempt, std::size(kBackoff) - 1)])) return;
  }
}

// Plays one stream until it breaks; returns whether it ever had credits.
bool Connection::PlayStream(grpc::Status* cause) {
  const auto context = NewContext();
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    context_ = context.get();
  }
  const auto stream = service_->Interact(context.get());
  std::thread writer;
  pb::InteractResponse response;
  while (stream->Read(&response)) {
    if (!writer.joinable()) {
      Begin();
      writer = std::thread([this, &stream] { Write(stream.get()); });
    }
    for (auto& event : *response.mutable_events()) Receive(&event);
  }
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    context_ = nullptr;
    outbox_.clear();
  }
  changed_.notify_all();
  const bool opened = writer.joinable();
  if (opened) writer.join();
  *cause = stream->Finish();
  return opened;
}

// The stream's first event, its credits, arrived: all that waits is sent.
void Connection::Begin() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  for (const auto& [id, waiting] : waiting_) outbox_.push_back(waiting.command);
  for (const auto& [id, seq] : attached_) {
    if (waiting_.count(id)) continue;
    pb::Command& command = outbox_.emplace_back();
    command.set_episode_id(id);
    command.set_seq(kNoSeq);
    command.mutable_attach()->set_last_seq_seen(static_cast<std::int64_t>(seq));
  }
}

// Writes what is in the outbox until the stream ends.
void Connection::Write(Stream* stream) {
  for (;;) {
    pb::InteractRequest request;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !open_ || !outbox_.empty(); });
      if (!open_) return;
      while (!outbox_.empty() && request.commands_size() < kMaxItems) {
        *request.add_commands() = std::move(outbox_.front());
        outbox_.pop_front();
      }
    }
    if (!stream->Write(request)) return;  // Finish says why
  }
}

void Connection::Receive(pb::Event* event) {
  const std::lock_guard lock(mutex_);
  const auto entry = waiting_.find(event->episode_id());
  if (entry == waiting_.end() || entry->second.command.seq() != event->seq()) {
    return;  // credits, and answers of attach
  }
  entry->second.answer.set_value(std::move(*event));
  waiting_.erase(entry);
}

void Connection::CountBreak(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  ++reconnects_;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    if (++entry->second.breaks < kMaxBreaks) {
      ++entry;
      continue;
    }
    const std::string what = "episode " + entry->first + ": " + std::to_string(kMaxBreaks) +
                             " streams in a row broke: " + cause;
    entry->second.answer.set_exception(std::make_exception_ptr(ConnectionLost(what)));
    entry = waiting_.erase(entry);
  }
}

void Connection::Fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    for (auto& [id, waiting] : waiting_) waiting.answer.set_exception(failure_);
    waiting_.clear();
    if (context_) context_->TryCancel();
  }
  changed_.notify_all();
}

// Waits before the next attempt; false = the connection has failed.
bool Connection::Pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return failure_ != nullptr; });
}

}  // namespace agentgym
