// Plays tasks of each environment with the actions of its expert, all environments side by side.
//
//   java -cp CLASSES examples/Play.java HOST:PORT EPISODES ENVIRONMENT...

import agentgym.Connection;
import agentgym.Episode;
import agentgym.Options;
import agentgym.Transition;
import agentgym.env.v1.Reset;
import agentgym.env.v1.TaskSummary;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Play {
  private static int playSome(Connection connection, String environment, int episodes) {
    int rebuilds = 0;
    for (TaskSummary task : connection.tasks(environment, "eval", episodes)) {
      Reset reset =
          Reset.newBuilder().setEnvironment(environment).setItemId(task.getItemId()).build();
      Episode episode = new Episode(connection, reset);
      Transition state = episode.start();
      while (!state.ended()) {
        state = episode.step(episode.advice().getAction());
      }
      episode.close();
      double score = state.score().orElseGet(state.reward()::getAsDouble);
      System.out.println(task.getItemId() + " score " + score + " steps " + episode.seq());
      rebuilds += episode.rebuilds();
    }
    return rebuilds;
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length < 3) {
      System.err.println("usage: Play HOST:PORT EPISODES ENVIRONMENT...");
      System.exit(2);
    }
    int episodes = Integer.parseInt(arguments[1]);
    List<String> environments = Arrays.asList(arguments).subList(2, arguments.length);
    String token = System.getenv().getOrDefault("AGENTGYM_TOKEN", "");
    ExecutorService players = Executors.newFixedThreadPool(environments.size());
    try (Connection connection = new Connection(arguments[0], Options.DEFAULT.withToken(token))) {
      List<Future<Integer>> playing = new ArrayList<>();
      for (String environment : environments) {
        playing.add(players.submit(() -> playSome(connection, environment, episodes)));
      }
      int rebuilds = 0;
      for (Future<Integer> some : playing) {
        rebuilds += some.get();
      }
      System.out.println("reconnects " + connection.reconnects() + " rebuilds " + rebuilds);
    } catch (ExecutionException failed) {
      System.err.println(failed.getCause().getMessage());
      System.exit(1);
    } finally {
      players.shutdown();
    }
  }
}
