package agentgym.sciworld;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import language.model.ActionRequestDef;
import scala.Option;
import scala.Tuple2;
import scala.Tuple4;
import scala.collection.Iterator;
import scala.collection.mutable.Set;
import scala.reflect.ClassTag$;
import scienceworld.actions.Action;
import scienceworld.input.InputParser;
import scienceworld.objects.agent.Agent;
import scienceworld.runtime.AgentInterface;
import scienceworld.struct.EnvObject;
import scienceworld.tasks.goals.GoalSequence;
import scienceworld.tasks.goals.ObjMonitor;

/**
 * The simulator's parser without two things that it does at every step for nothing: it collects the objects of
 * the whole world, which only teleports and the like look at, and it makes the words for every object anew, for
 * each pattern that an action might be. Everything is computed by the simulator's own code; here it is only put
 * off, or remembered.
 *
 * <p>For the simulator's thread alone.
 */
public final class SparingParser extends InputParser {
  /** Lists of names that are remembered; a name has some fifty characters. */
  private static final int MOST = 1 << 15;

  /** What an object is called, and what the parser makes of it: a function of nothing else. */
  private static final Map<List<String>, String[]> CLEANED = new HashMap<>();

  /** Stands for the world's objects until somebody asks for them. */
  private static final EnvObject ANYTHING = new EnvObject("", "", false);

  private EnvObject world;
  private EnvObject[] objects;
  private EnvObject[] named;
  private String[][] names;

  private SparingParser(ActionRequestDef[] actions) {
    super(actions);
  }

  /** Give an episode's interface such a parser, before its first step. */
  public static void install(AgentInterface episode) throws ReflectiveOperationException {
    Field actions = InputParser.class.getDeclaredField("actionRequestDefs");
    actions.setAccessible(true);
    Field parser = AgentInterface.class.getDeclaredField("inputParser");
    parser.setAccessible(true);
    parser.set(episode, new SparingParser((ActionRequestDef[]) actions.get(episode.inputParser())));
  }

  @Override
  public Tuple4<Object, String, String, Option<Action>> parse(
      String input,
      EnvObject room,
      EnvObject world,
      Agent agent,
      ObjMonitor monitor,
      GoalSequence goals,
      EnvObject perspective) {
    this.world = world;
    try {
      return super.parse(input, room, ANYTHING, agent, monitor, goals, perspective);
    } finally {
      this.world = null;
      this.objects = null;
      this.named = null;
      this.names = null;
    }
  }

  @Override
  public Tuple2<Object, Tuple2<String, EnvObject>[]> matchObj(
      String input, EnvObject[] candidates, EnvObject perspective) {
    EnvObject[] all = candidates.length == 1 && candidates[0] == ANYTHING ? worldObjects() : candidates;
    String[][] called = namesOf(all, perspective);
    List<Tuple2<String, EnvObject>> found = new ArrayList<>();
    for (int i = 0; i < all.length; i++) {
      for (String name : called[i]) {
        if (input.startsWith(name)) {
          found.add(new Tuple2<>(input.substring(name.length()).trim(), all[i]));
        }
      }
    }
    @SuppressWarnings({"unchecked", "rawtypes"}) // Java makes no arrays of generic types.
    Tuple2<String, EnvObject>[] matches = found.toArray(new Tuple2[0]);
    return new Tuple2<>(!found.isEmpty(), matches);
  }

  private EnvObject[] worldObjects() {
    if (objects == null) {
      Set<EnvObject> collected = InputParser.collectAccessibleObjects(world, true);
      objects = (EnvObject[]) collected.toArray(ClassTag$.MODULE$.<EnvObject>apply(EnvObject.class));
    }
    return objects;
  }

  /** Nothing of the world changes while an action is parsed. */
  private String[][] namesOf(EnvObject[] all, EnvObject perspective) {
    if (named != all) {
      String[][] made = new String[all.length][];
      for (int i = 0; i < all.length; i++) {
        made[i] = cleaned(all[i], perspective);
      }
      named = all;
      names = made;
    }
    return names;
  }

  private static String[] cleaned(EnvObject object, EnvObject perspective) {
    List<String> raw = new ArrayList<>();
    Iterator<String> each = object.getReferentsWithContainers(perspective).iterator();
    while (each.hasNext()) {
      raw.add(each.next());
    }
    String[] cleaned = CLEANED.get(raw);
    if (cleaned == null) {
      if (CLEANED.size() >= MOST) {
        CLEANED.clear();
      }
      cleaned = InputParser.getObjectReferents(object, perspective);
      CLEANED.put(raw, cleaned);
    }
    return cleaned;
  }
}
