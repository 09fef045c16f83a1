package agentgym;

/** No AgentGym server answers at the address, or streams break again and again. */
public final class ConnectionLostException extends RuntimeException {
  private static final long serialVersionUID = 1;

  ConnectionLostException(String message, Throwable cause) {
    super(message, cause);
  }
}
