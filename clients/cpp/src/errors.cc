#include "agentgym/errors.h"

#include "google/rpc/error_details.pb.h"

namespace agentgym {
namespace {

constexpr char kDomain[] = "agentgym.env";

google::rpc::Status Carried(const grpc::Status& status) {
  google::rpc::Status carried;
  if (!carried.ParseFromString(status.error_details())) carried.Clear();
  return carried;
}

std::string Described(const google::rpc::Status& status) {
  for (const auto& detail : status.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason() + ": " + status.message();
  }
  return status.message();
}

}  // namespace

Error::Error(const google::rpc::Status& status) : std::runtime_error(Described(status)) {
  for (const auto& detail : status.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info) && info.domain() == kDomain) {
      metadata = {info.metadata().begin(), info.metadata().end()};
      pb::ErrorReason_Parse("ERROR_REASON_" + info.reason(), &reason);
      pb::Fault_Parse("FAULT_" + metadata["fault"], &fault);
      retriable = metadata["retriable"] == "true";
    } else if (detail.UnpackTo(&retry)) {
      const auto& delay = retry.retry_delay();
      retry_after = std::chrono::milliseconds(delay.seconds() * 1000 + delay.nanos() / 1000000);
    }
  }
}

void RequireOk(const grpc::Status& status) {
  if (status.ok()) return;
  const Error refused(Carried(status));
  if (refused.reason != pb::ERROR_REASON_UNSPECIFIED) throw refused;
  throw ConnectionLost(status.error_message());
}

}  // namespace agentgym
