package agentgym;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.time.Duration;

/**
 * Options of a connection.
 *
 * @param credentials for example {@code TlsChannelCredentials.create()}
 * @param token sent as {@code authorization: Bearer TOKEN}, only over TLS or to this machine; empty =
 *     none
 * @param connectDeadline how long a lost server is waited for
 */
public record Options(ChannelCredentials credentials, String token, Duration connectDeadline) {
  /** Right for a server on this machine. */
  public static final Options DEFAULT =
      new Options(InsecureChannelCredentials.create(), "", Duration.ofSeconds(30));

  public Options withCredentials(ChannelCredentials credentials) {
    return new Options(credentials, token, connectDeadline);
  }

  public Options withToken(String token) {
    return new Options(credentials, token, connectDeadline);
  }

  public Options withConnectDeadline(Duration connectDeadline) {
    return new Options(credentials, token, connectDeadline);
  }
}
