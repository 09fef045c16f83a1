// One stream to one server, kept alive across losses; it carries any number of episodes.
//
// Every command is kept until its event arrives. When the stream breaks, another is opened and all
// that waits is sent again under the same (episode_id, seq), which the protocol makes safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "agentgym/env/v1/environment.grpc.pb.h"
#include "agentgym/errors.h"

namespace agentgym {

struct Options {
  // Sent as `authorization: Bearer TOKEN`; only over TLS or to this machine.
  std::string token;
  // TLS of the connection, for example grpc::SslCredentials({}); null = none.
  std::shared_ptr<grpc::ChannelCredentials> tls;
  // How long a lost server is waited for.
  std::chrono::milliseconds connect_deadline{30'000};
};

// Its methods may be called from any thread; it outlives its episodes.
class Connection {
 public:
  // `address` is HOST:PORT. Nothing waits for the server before the first command.
  // Throws std::invalid_argument for a token that would be sent without TLS.
  explicit Connection(std::string address, Options options = {});
  // Ends the stream. Episodes that are open live on under their leases.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Names of the environments that the server hosts. This and the next two throw Error and
  // ConnectionLost.
  std::vector<std::string> Environments();
  // Everything that a client has to know of one environment.
  pb::GetEnvironmentResponse Describe(const std::string& environment);
  // Up to `limit` tasks of a split in their order; 0 = all.
  std::vector<pb::TaskSummary> Tasks(const std::string& environment,
                                     const std::string& split = "eval", std::size_t limit = 0);

  // Times that a broken stream was opened again.
  int reconnects() const;
  // The calls as they are generated; give each the context that NewContext makes.
  pb::EnvironmentService::Stub& service() { return *service_; }
  std::unique_ptr<grpc::ClientContext> NewContext() const;

 private:
  friend class Episode;

  struct Waiting {
    pb::Command command;
    int breaks = 0;
    std::promise<pb::Event> answer;
  };
  using Stream = grpc::ClientReaderWriter<pb::InteractRequest, pb::InteractResponse>;

  // Sends a command until its event arrives; one of an episode at a time.
  pb::Event Exchange(pb::Command command);
  // Keeps an episode attached across streams; `seq` is the last whose event arrived.
  void Attach(const std::string& episode_id, std::uint64_t seq);
  void Detach(const std::string& episode_id);

  void Run();
  bool PlayStream(grpc::Status* cause);
  void Begin();
  void Write(Stream* stream);
  void Receive(pb::Event* event);
  void CountBreak(const std::string& cause);
  void Fail(std::exception_ptr failure);
  bool Pause(std::chrono::milliseconds time);

  const std::string address_;
  const Options options_;
  std::unique_ptr<pb::EnvironmentService::Stub> service_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int reconnects_ = 0;
  bool open_ = false;  // a stream has credits
  std::exception_ptr failure_;
  grpc::ClientContext* context_ = nullptr;  // of the stream
  std::deque<pb::Command> outbox_;          // on their way into the stream
  std::unordered_map<std::string, Waiting> waiting_;
  std::unordered_map<std::string, std::uint64_t> attached_;

  std::thread thread_;
};

}  // namespace agentgym
