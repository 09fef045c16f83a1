package agentgym;

import agentgym.env.v1.ErrorReason;
import agentgym.env.v1.Fault;
import agentgym.rpc.ErrorInfo;
import agentgym.rpc.RetryInfo;
import agentgym.rpc.Status;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;

/** A server refused a command; docs/protocol.md says for each reason what to do. */
public final class AgentGymException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final String DOMAIN = "agentgym.env";
  private static final Metadata.Key<Status> DETAILS =
      Metadata.Key.of(
          "grpc-status-details-bin", ProtoUtils.metadataMarshaller(Status.getDefaultInstance()));

  private final transient ErrorInfo info;
  private final ErrorReason reason;
  private final transient Duration retryAfter;

  private AgentGymException(String message, ErrorInfo info, Duration retryAfter) {
    super(info.getReason() + ": " + message);
    this.info = info;
    this.reason = named(ErrorReason.values(), "ERROR_REASON_" + info.getReason());
    this.retryAfter = retryAfter;
  }

  /** ERROR_REASON_UNSPECIFIED where the answer does not come from an AgentGym server. */
  public ErrorReason reason() {
    return reason;
  }

  /** Who is to blame. */
  public Fault fault() {
    return named(Fault.values(), "FAULT_" + metadata().get("fault"));
  }

  /** Whether the same command, sent again, can succeed. */
  public boolean retriable() {
    return "true".equals(metadata().get("retriable"));
  }

  /** What the reason's row in docs/protocol.md lists. */
  public Map<String, String> metadata() {
    return info.getMetadataMap();
  }

  /** How long the server asks to wait before that. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  static AgentGymException of(Status status) {
    ErrorInfo info = ErrorInfo.getDefaultInstance();
    Duration retryAfter = null;
    try {
      for (Any detail : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo given = detail.unpack(ErrorInfo.class);
          info = given.getDomain().equals(DOMAIN) ? given : info;
        } else if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
          retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        }
      }
    } catch (InvalidProtocolBufferException malformed) {
      throw new IllegalStateException("the server's error has malformed details", malformed);
    }
    return new AgentGymException(status.getMessage(), info, retryAfter);
  }

  /** What a call failed with: one of these where an AgentGym server gave it. */
  static RuntimeException ofCall(StatusRuntimeException failed) {
    Metadata trailers = failed.getTrailers();
    Status status = trailers == null ? null : trailers.get(DETAILS);
    if (status != null) {
      AgentGymException refused = of(status);
      if (refused.reason() != ErrorReason.ERROR_REASON_UNSPECIFIED) {
        return refused;
      }
    }
    return new ConnectionLostException(failed.getMessage(), failed);
  }

  /** The constant of that name; else the first one, which is the unspecified one. */
  private static <E extends Enum<E>> E named(E[] values, String name) {
    return Arrays.stream(values).filter(it -> it.name().equals(name)).findFirst().orElse(values[0]);
  }
}
