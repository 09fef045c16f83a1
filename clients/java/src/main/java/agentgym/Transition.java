package agentgym;

import agentgym.env.v1.Event;
import agentgym.env.v1.StopReason;
import java.util.Optional;
import java.util.OptionalDouble;

/**
 * What a reset or a step led to.
 *
 * @param seq the state that it led to
 * @param observation what the agent sees
 * @param reward of the step; empty = not scored, which is not 0
 * @param score what the episode would score if it ended here
 * @param terminated whether the task's own rules ended it
 * @param truncated whether a limit ended it
 * @param stopReason why
 * @param parsedAction the native action that the server read in a reply; empty = unreadable
 */
public record Transition(
    long seq,
    String observation,
    OptionalDouble reward,
    OptionalDouble score,
    boolean terminated,
    boolean truncated,
    StopReason stopReason,
    Optional<String> parsedAction) {

  static Transition of(Event event) {
    if (event.getBodyCase() != Event.BodyCase.OBSERVATION) {
      throw new IllegalStateException("the server answered with " + event.getBodyCase());
    }
    return new Transition(
        event.getSeq(),
        event.getObservation(),
        event.hasReward() ? OptionalDouble.of(event.getReward()) : OptionalDouble.empty(),
        event.hasScore() ? OptionalDouble.of(event.getScore()) : OptionalDouble.empty(),
        event.getTerminated(),
        event.getTruncated(),
        event.getStopReason(),
        event.hasParsedAction() ? Optional.of(event.getParsedAction()) : Optional.empty());
  }

  /** Whether the episode takes no more steps. */
  public boolean ended() {
    return terminated || truncated;
  }
}
