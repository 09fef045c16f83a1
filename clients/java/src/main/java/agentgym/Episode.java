package agentgym;

import agentgym.env.v1.ActionFormat;
import agentgym.env.v1.ActionInput;
import agentgym.env.v1.Advice;
import agentgym.env.v1.Advisor;
import agentgym.env.v1.Close;
import agentgym.env.v1.Command;
import agentgym.env.v1.Consult;
import agentgym.env.v1.ErrorReason;
import agentgym.env.v1.Event;
import agentgym.env.v1.Heartbeat;
import agentgym.env.v1.JournalEntry;
import agentgym.env.v1.Reset;
import agentgym.env.v1.ToolCall;
import java.time.Duration;
import java.time.Instant;
import java.util.UUID;

/**
 * An episode on a server, for one thread at a time. Its methods throw {@link AgentGymException} and
 * {@link ConnectionLostException}.
 *
 * <p>It keeps its inputs (the journal) and the state hash after each. Where the server no longer knows
 * the episode it is opened again with the journal; every hash must come out again (R26, R27).
 */
public final class Episode {
  /** Rebuilds without a step between them. */
  private static final int MAX_REBUILDS = 8;

  /** How long a command is refused for want of room before its error is thrown. */
  private static final Duration PATIENCE = Duration.ofMinutes(1);

  /** Between two attempts where the server does not say. */
  private static final Duration ROOM_WAIT = Duration.ofMillis(500);

  private final Connection connection;

  /** Nobody can guess it. */
  private final String id = UUID.randomUUID().toString();

  /** With the journal so far. */
  private final Reset.Builder reset;

  private final Transition start;
  private long seq;
  private int rebuilds;
  private int rebuildsInARow;

  /** Open an episode of the task that {@code reset} describes. */
  public Episode(Connection connection, Reset reset) {
    this.connection = connection;
    this.reset = reset.toBuilder();
    Event event = command(Command.newBuilder().setReset(reset));
    this.reset.setInitialStateHash(event.getStateHash());
    start = Transition.of(event);
    connection.attach(id, 0);
  }

  /** What the reset led to. */
  public Transition start() {
    return start;
  }

  public String id() {
    return id;
  }

  /** The state it is in: the number of its steps. */
  public long seq() {
    return seq;
  }

  /** Times that it was opened again with its journal. */
  public int rebuilds() {
    return rebuilds;
  }

  /** Apply a native action. */
  public Transition step(String action) {
    return apply(
        Command.newBuilder().setAction(action), ActionInput.newBuilder().setAction(action));
  }

  /** Apply a model's whole reply; the server reads the action in it, in the episode's format. */
  public Transition stepReply(String reply) {
    return stepReply(reply, ActionFormat.ACTION_FORMAT_UNSPECIFIED);
  }

  public Transition stepReply(String reply, ActionFormat format) {
    return apply(
        Command.newBuilder().setReply(reply).setActionFormat(format),
        ActionInput.newBuilder().setReply(reply).setActionFormat(format));
  }

  /** Apply a function call; {@code argumentsJson} is a JSON object. */
  public Transition stepCall(String name, String argumentsJson) {
    ToolCall call = ToolCall.newBuilder().setName(name).setArgumentsJson(argumentsJson).build();
    return apply(
        Command.newBuilder().setToolCall(call), ActionInput.newBuilder().setToolCall(call));
  }

  /** Ask the expert what it would do in this state; changes nothing. */
  public Advice advice() {
    return advice(Advisor.ADVISOR_EXPERT, 0);
  }

  public Advice advice(Advisor advisor, long seed) {
    Consult consult = Consult.newBuilder().setAdvisor(advisor).setSeed(seed).build();
    return command(Command.newBuilder().setSeq(seq).setConsult(consult)).getAdvice();
  }

  /** Keep the server from ending an episode whose agent thinks for minutes. */
  public void heartbeat() {
    command(Command.newBuilder().setSeq(seq).setHeartbeat(Heartbeat.getDefaultInstance()));
  }

  /** End the episode on the server. */
  public void close() {
    connection.detach(id);
    command(Command.newBuilder().setSeq(seq).setClose(Close.getDefaultInstance()));
  }

  private Transition apply(Command.Builder step, ActionInput.Builder input) {
    Event event = command(step.setSeq(seq + 1));
    Transition transition = Transition.of(event);
    reset.addJournal(
        JournalEntry.newBuilder().setInput(input).setStateHash(event.getStateHash()));
    seq++;
    connection.attach(id, seq);
    return transition;
  }

  /** Send a command until it is answered, through losses of streams and servers. */
  private Event command(Command.Builder command) {
    Instant until = Instant.now().plus(PATIENCE);
    Command sent = command.setEpisodeId(id).build();
    for (; ; ) {
      Event event = connection.exchange(sent);
      if (!event.hasError()) {
        rebuildsInARow = 0;
        return event;
      }
      AgentGymException refused = AgentGymException.of(event.getError());
      if (!sent.hasReset() && isBehind(refused) && rebuildsInARow < MAX_REBUILDS) {
        rebuild(refused, until);
      } else {
        waitFor(refused, until);
      }
    }
  }

  /** Whether the server does not know the episode, or only an older state of it. */
  private boolean isBehind(AgentGymException refused) {
    if (refused.reason() != ErrorReason.ERROR_REASON_SEQ_GAP) {
      return refused.reason() == ErrorReason.ERROR_REASON_EPISODE_NOT_FOUND;
    }
    String expected = refused.metadata().getOrDefault("expected", "");
    return expected.matches("\\d{1,18}") && Long.parseLong(expected) <= seq;
  }

  /** Open the episode again where it was; the server checks every hash. */
  private void rebuild(AgentGymException lost, Instant until) {
    rebuilds++;
    rebuildsInARow++;
    Command command =
        Command.newBuilder().setEpisodeId(id).setSeq(seq).setReset(reset).build();
    for (; ; ) {
      Event event = connection.exchange(command);
      if (!event.hasError()) {
        return;
      }
      AgentGymException refused = AgentGymException.of(event.getError());
      if (refused.reason() == ErrorReason.ERROR_REASON_UNSUPPORTED_CAPABILITY) {
        throw lost; // the environment is not deterministic: the episode is gone
      }
      waitFor(refused, until);
    }
  }

  /** Wait where that can help, else throw the error. */
  private static void waitFor(AgentGymException refused, Instant until) {
    Duration delay = refused.retryAfter().orElse(ROOM_WAIT);
    boolean worthWaiting =
        switch (refused.reason()) {
          case ERROR_REASON_CAPACITY_EXHAUSTED,
              ERROR_REASON_CREDITS_EXCEEDED,
              ERROR_REASON_DRAINING -> true;
          default -> false;
        };
    if (!worthWaiting || Instant.now().plus(delay).isAfter(until)) {
      throw refused;
    }
    try {
      Thread.sleep(delay.toMillis());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw refused;
    }
  }
}
