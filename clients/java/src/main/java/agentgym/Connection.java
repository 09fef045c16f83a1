package agentgym;

import agentgym.env.v1.Attach;
import agentgym.env.v1.Command;
import agentgym.env.v1.EnvironmentServiceGrpc;
import agentgym.env.v1.ErrorReason;
import agentgym.env.v1.Event;
import agentgym.env.v1.GetEnvironmentRequest;
import agentgym.env.v1.GetEnvironmentResponse;
import agentgym.env.v1.InteractRequest;
import agentgym.env.v1.InteractResponse;
import agentgym.env.v1.ListEnvironmentsRequest;
import agentgym.env.v1.ListTasksRequest;
import agentgym.env.v1.ListTasksResponse;
import agentgym.env.v1.TaskSummary;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * One stream to one server, kept alive across losses; it carries any number of episodes, and may be
 * used from any thread.
 *
 * <p>Every command is kept until its event arrives. When the stream breaks, another is opened and all
 * that waits is sent again under the same (episode_id, seq), which the protocol makes safe.
 */
public final class Connection implements AutoCloseable {
  private static final int CONTRACT_REVISION = 1;

  /** Commands of a message (R3). */
  private static final int MAX_ITEMS = 128;

  /** Of commands whose seq is ignored (2^64 - 1): their answers answer nothing else. */
  private static final long NO_SEQ = -1;

  /** Streams that may break in a row while a command waits. */
  private static final int MAX_BREAKS = 16;

  private static final int PAGE_SIZE = 1000;
  private static final long[] BACKOFF_MS = {50, 100, 200, 500, 1000};

  private final String address;
  private final Options options;
  private final ManagedChannel channel;
  private final EnvironmentServiceGrpc.EnvironmentServiceBlockingStub service;
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "agentgym-connection");
            thread.setDaemon(true);
            return thread;
          });

  // Guarded by `this`.
  private final Map<String, Waiting> waiting = new HashMap<>();

  /** The last seq whose event arrived, of each open episode. */
  private final Map<String, Long> attached = new HashMap<>();

  private Stream stream;
  private int reconnects;
  private int attempt;
  private Instant lostSince = Instant.now();
  private RuntimeException failure;

  private static final class Waiting {
    final Command command;
    final CompletableFuture<Event> answer = new CompletableFuture<>();
    int breaks;

    Waiting(Command command) {
      this.command = command;
    }
  }

  /** Connect to HOST:PORT on this machine. Nothing waits for the server before the first command. */
  public Connection(String address) {
    this(address, Options.DEFAULT);
  }

  public Connection(String address, Options options) {
    this.address = address;
    this.options = options;
    channel = open(address, options);
    service = EnvironmentServiceGrpc.newBlockingStub(channel);
    openStream();
  }

  private static ManagedChannel open(String address, Options options) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(address, options.credentials())
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            .maxInboundMessageSize(Integer.MAX_VALUE);
    if (!options.token().isEmpty()) {
      boolean plain = options.credentials() instanceof InsecureChannelCredentials;
      if (plain && !address.matches("(localhost|127\\.[0-9.]+|\\[::1\\]):\\d+")) {
        throw new IllegalArgumentException(
            "a token is sent to " + address + " only over TLS: set the credentials");
      }
      Metadata headers = new Metadata();
      headers.put(
          Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
          "Bearer " + options.token());
      builder.intercept(MetadataUtils.newAttachHeadersInterceptor(headers));
    }
    return builder.build();
  }

  /** Names of the environments that the server hosts. */
  public List<String> environments() {
    return call(() -> service.listEnvironments(ListEnvironmentsRequest.getDefaultInstance()))
        .getEnvironmentsList();
  }

  /** Everything that a client has to know of one environment. */
  public GetEnvironmentResponse describe(String environment) {
    GetEnvironmentRequest request =
        GetEnvironmentRequest.newBuilder()
            .setEnvironment(environment)
            .setContractRevision(CONTRACT_REVISION)
            .build();
    return call(() -> service.getEnvironment(request));
  }

  /** Up to {@code limit} tasks of a split in their order; 0 = all. */
  public List<TaskSummary> tasks(String environment, String split, int limit) {
    ListTasksRequest.Builder request =
        ListTasksRequest.newBuilder()
            .setEnvironment(environment)
            .setSplit(split)
            .setPageSize(PAGE_SIZE);
    List<TaskSummary> tasks = new ArrayList<>();
    do {
      ListTasksResponse page = call(() -> service.listTasks(request.build()));
      tasks.addAll(page.getTasksList());
      if (limit > 0 && tasks.size() >= limit) {
        return tasks.subList(0, limit);
      }
      request.setPageToken(page.getNextPageToken());
    } while (!request.getPageToken().isEmpty());
    return tasks;
  }

  /** Times that a broken stream was opened again. */
  public synchronized int reconnects() {
    return reconnects;
  }

  /** The calls as they are generated. */
  public EnvironmentServiceGrpc.EnvironmentServiceBlockingStub service() {
    return service;
  }

  /** End the stream. Episodes that are open live on under their leases. */
  @Override
  public void close() {
    fail(new ConnectionLostException("the connection to " + address + " was closed", null));
    timer.shutdownNow();
    channel.shutdownNow();
  }

  /** Send a command until its event arrives; one of an episode at a time. */
  Event exchange(Command command) {
    Waiting it = new Waiting(command);
    synchronized (this) {
      if (failure != null) {
        throw failure;
      }
      if (waiting.putIfAbsent(command.getEpisodeId(), it) != null) {
        throw new IllegalStateException(
            "episode " + command.getEpisodeId() + ": a command is in flight");
      }
      if (stream != null) {
        stream.send(List.of(command));
      }
    }
    try {
      return it.answer.join();
    } catch (CompletionException failed) {
      throw failed.getCause() instanceof AgentGymException refused
          ? refused
          : new ConnectionLostException(failed.getCause().getMessage(), failed.getCause());
    }
  }

  /** Keep an episode attached across streams; {@code seq} is the last whose event arrived. */
  synchronized void attach(String episodeId, long seq) {
    attached.put(episodeId, seq);
  }

  synchronized void detach(String episodeId) {
    attached.remove(episodeId);
  }

  private static <T> T call(Supplier<T> request) {
    try {
      return request.get();
    } catch (StatusRuntimeException failed) {
      throw AgentGymException.ofCall(failed);
    }
  }

  private void openStream() {
    EnvironmentServiceGrpc.newStub(channel).interact(new Stream());
  }

  /** The stream's first event, its credits, arrived: all that waits is sent. */
  private synchronized void begin(Stream opened) {
    List<Command> commands = new ArrayList<>();
    waiting.values().forEach(it -> commands.add(it.command));
    attached.forEach(
        (id, seq) -> {
          if (!waiting.containsKey(id)) {
            Attach attach = Attach.newBuilder().setLastSeqSeen(seq).build();
            commands.add(
                Command.newBuilder().setEpisodeId(id).setSeq(NO_SEQ).setAttach(attach).build());
          }
        });
    for (int from = 0; from < commands.size(); from += MAX_ITEMS) {
      opened.send(commands.subList(from, Math.min(from + MAX_ITEMS, commands.size())));
    }
    stream = opened;
    attempt = 0;
  }

  private synchronized void receive(Event event) {
    Waiting it = waiting.get(event.getEpisodeId());
    if (it != null && it.command.getSeq() == event.getSeq()) {
      waiting.remove(event.getEpisodeId());
      it.answer.complete(event);
    } // else credits, and answers of attach
  }

  private synchronized void broke(Stream broken, RuntimeException cause) {
    if (failure != null) {
      return;
    }
    if (stream == broken) {
      stream = null;
      lostSince = Instant.now();
      reconnects++;
      countBreak(cause);
    }
    boolean refused =
        cause instanceof AgentGymException it
            && it.reason() == ErrorReason.ERROR_REASON_UNAUTHENTICATED;
    boolean late =
        Duration.between(lostSince, Instant.now()).compareTo(options.connectDeadline()) > 0;
    if (refused) {
      fail(cause);
    } else if (late) {
      fail(
          new ConnectionLostException(
              "no server at " + address + ": " + cause.getMessage(), cause));
    } else {
      long wait = BACKOFF_MS[Math.min(attempt++, BACKOFF_MS.length - 1)];
      timer.schedule(this::reopen, wait, TimeUnit.MILLISECONDS);
    }
  }

  private void reopen() {
    channel.resetConnectBackoff(); // which is ours
    openStream();
  }

  private void countBreak(RuntimeException cause) {
    for (Iterator<Waiting> all = waiting.values().iterator(); all.hasNext(); ) {
      Waiting it = all.next();
      if (++it.breaks >= MAX_BREAKS) {
        all.remove();
        it.answer.completeExceptionally(
            new ConnectionLostException(
                MAX_BREAKS + " streams in a row broke: " + cause.getMessage(), cause));
      }
    }
  }

  private synchronized void fail(RuntimeException reason) {
    if (failure == null) {
      failure = reason;
    }
    waiting.values().forEach(it -> it.answer.completeExceptionally(failure));
    waiting.clear();
  }

  private final class Stream implements ClientResponseObserver<InteractRequest, InteractResponse> {
    private StreamObserver<InteractRequest> requests;
    private boolean begun;

    @Override
    public void beforeStart(ClientCallStreamObserver<InteractRequest> requests) {
      this.requests = requests;
    }

    /** Never blocks; the connection's lock is held. */
    void send(List<Command> commands) {
      requests.onNext(InteractRequest.newBuilder().addAllCommands(commands).build());
    }

    @Override
    public void onNext(InteractResponse response) {
      if (!begun) {
        begun = true;
        begin(this);
      }
      response.getEventsList().forEach(Connection.this::receive);
    }

    @Override
    public void onError(Throwable failed) {
      broke(
          this,
          failed instanceof StatusRuntimeException status
              ? AgentGymException.ofCall(status)
              : new ConnectionLostException(failed.toString(), failed));
    }

    @Override
    public void onCompleted() {
      broke(this, new ConnectionLostException("the server ended the stream", null));
    }
  }
}
