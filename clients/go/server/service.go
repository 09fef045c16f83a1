package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	envv1 "agentgym/env/v1"
)

const (
	serverVersion   = "agentgym/server 0.1.0 (Go)"
	acknowledgement = "OK. I'll follow your instructions and try my best to solve the task."
	maxPage         = 10_000
	defaultPage     = 1000
	maxNamedItems   = 1000
)

var pageToken = regexp.MustCompile(`^[0-9]{0,15}$`)

// service has the calls of the contract.
type service struct {
	envv1.UnimplementedEnvironmentServiceServer
	commands *commands
	clients  clients
	limits   *Limits
	// instance names this run of the program.
	instance string
	// stop is closed when streams have to end.
	stop chan struct{}
	// unnamed counts calls of clients that have no address.
	unnamed atomic.Int64
}

func (s *service) Interact(stream envv1.EnvironmentService_InteractServer) error {
	session, err := s.session(stream.Context())
	if err != nil {
		return err
	}
	defer s.commands.detach(session)
	credits := &envv1.Credits{MaxInFlight: uint32(s.limits.MaxInFlight), Instance: s.instance}
	session.answer(&envv1.Event{Body: &envv1.Event_Credits{Credits: credits}})
	var received atomic.Value // how reading ended
	go func() {
		received.Store(s.read(stream, session))
		session.wake()
	}()
	var isStopped atomic.Bool
	go func() {
		select {
		case <-s.stop:
			isStopped.Store(true)
			session.wake()
		case <-stream.Context().Done():
		}
	}()
	finished := func() bool { return isStopped.Load() || received.Load() != nil }
	for {
		events := session.next(finished)
		if len(events) == 0 {
			if end, _ := received.Load().(readEnd); end.err != nil {
				return end.err
			}
			return nil
		}
		if err := stream.Send(&envv1.InteractResponse{Events: events}); err != nil {
			return err
		}
	}
}

type readEnd struct{ err error }

// read takes commands until the client ends the stream, or breaks it.
func (s *service) read(stream envv1.EnvironmentService_InteractServer, session *session) readEnd {
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return readEnd{}
		}
		if err != nil {
			session.close()
			return readEnd{err}
		}
		for _, command := range request.Commands {
			session.untilRead()
			s.commands.handle(session, command)
		}
	}
}

func (s *service) Reset(ctx context.Context, r *envv1.ResetRequest) (*envv1.ResetResponse, error) {
	event, err := s.one(ctx, r.GetCommand())
	return &envv1.ResetResponse{Event: event}, err
}

func (s *service) Step(ctx context.Context, r *envv1.StepRequest) (*envv1.StepResponse, error) {
	event, err := s.one(ctx, r.GetCommand())
	return &envv1.StepResponse{Event: event}, err
}

func (s *service) Close(ctx context.Context, r *envv1.CloseRequest) (*envv1.CloseResponse, error) {
	command := &envv1.Command{
		EpisodeId: r.GetCommand().GetEpisodeId(), Seq: r.GetCommand().GetSeq(),
		Body: &envv1.Command_Close{Close: &envv1.Close{}},
	}
	event, err := s.one(ctx, command)
	return &envv1.CloseResponse{Event: event}, err
}

func (s *service) Render(ctx context.Context, r *envv1.RenderRequest) (*envv1.RenderResponse, error) {
	caller, err := s.clients.inScope(ctx, "play")
	if err != nil {
		return nil, callError(err)
	}
	drawn, err := s.commands.render(r.EpisodeId, caller)
	return drawn, callError(err)
}

// one answers a command as on a stream of its own; its error is the call's.
func (s *service) one(ctx context.Context, command *envv1.Command) (*envv1.Event, error) {
	session, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	defer s.commands.detach(session)
	if command == nil {
		command = &envv1.Command{}
	}
	s.commands.handle(session, command)
	var last *envv1.Event
	for events := session.next(always); len(events) > 0; events = session.next(always) {
		last = events[len(events)-1]
	}
	if refused := last.GetError(); refused != nil {
		return nil, status.FromProto(refused).Err()
	}
	return last, nil
}

func always() bool { return true }

func (s *service) session(ctx context.Context) (*session, error) {
	caller, err := s.clients.inScope(ctx, "play")
	if err != nil {
		return nil, callError(err)
	}
	account := "client " + caller.name
	if caller.name == "" {
		// Connections to a Unix socket cannot be told apart: there each call counts by itself.
		account = fmt.Sprintf("call %d", s.unnamed.Add(1))
		if from, known := peer.FromContext(ctx); known && from.Addr.Network() == "tcp" {
			account = "peer " + from.Addr.String()
		}
	}
	return newSession(caller, account, s.limits), nil
}

// ------------------------------------------------------------------ questions

func (s *service) ListEnvironments(
	context.Context, *envv1.ListEnvironmentsRequest,
) (*envv1.ListEnvironmentsResponse, error) {
	return &envv1.ListEnvironmentsResponse{
		Environments:      s.commands.environments.names(),
		ContractRevisions: []uint32{contractRevision},
		ServerVersion:     serverVersion,
	}, nil
}

func (s *service) GetEnvironment(
	_ context.Context, r *envv1.GetEnvironmentRequest,
) (*envv1.GetEnvironmentResponse, error) {
	if revision := r.ContractRevision; revision != 0 && revision != contractRevision {
		asked := strconv.FormatUint(uint64(revision), 10)
		message := "the client speaks contract revision " + asked
		return nil, callError(refuse("CONTRACT_REVISION_UNSUPPORTED", message,
			"client_revision", asked, "server_revisions", strconv.Itoa(contractRevision)))
	}
	spec, err := s.commands.environments.find(r.Environment)
	if err != nil {
		return nil, callError(err)
	}
	described := s.describe(spec)
	for _, needed := range r.RequiredCapabilities {
		has := false
		for _, capability := range described.Capabilities {
			has = has || capability == needed
		}
		if !has {
			name := strings.TrimPrefix(needed.String(), "CAPABILITY_")
			message := fmt.Sprintf("environment %s lacks the capability %s", spec.Name, name)
			return nil, callError(lacksCapability(message, name))
		}
	}
	return described, nil
}

func (s *service) describe(spec *Spec) *envv1.GetEnvironmentResponse {
	identity := toJSON([]interface{}{spec.Name, spec.Version, spec.Splits})
	digest := sha256.Sum256([]byte(identity))
	described := &envv1.GetEnvironmentResponse{
		Name: spec.Name, Version: spec.Version, Digest: hex.EncodeToString(digest[:8]),
		ContractRevision: contractRevision, Description: spec.Description,
		Capabilities: spec.capabilities(), Profiles: spec.profiles(), Metric: spec.Metric,
		SuccessScore: spec.SuccessScore, MaxRounds: spec.MaxRounds,
		FunctionsJson: spec.Grammar.functionsJSON(), Limits: s.limits.message(),
	}
	if described.Metric == envv1.Metric_METRIC_UNSPECIFIED {
		described.Metric, described.SuccessScore = envv1.Metric_METRIC_SUCCESS_RATE, 1
	}
	for _, split := range spec.Splits {
		named := &envv1.Split{Name: split.Name, Size: uint64(split.Size)}
		described.Splits = append(described.Splits, named)
	}
	for _, start := range spec.ConversationStarts {
		opened := &envv1.ConversationStart{
			ActionFormat: start.Format, Instruction: start.Instruction,
			Acknowledgement: start.Acknowledgement,
		}
		if opened.Acknowledgement == "" {
			opened.Acknowledgement = acknowledgement
		}
		described.ActionFormats = append(described.ActionFormats, start.Format)
		described.ConversationStarts = append(described.ConversationStarts, opened)
	}
	return described
}

func (l *Limits) message() *envv1.Limits {
	return &envv1.Limits{
		MaxTextBytes: uint64(l.MaxTextBytes), MaxMessageBytes: uint64(l.MaxMessageBytes),
		MaxEpisodes: uint64(l.MaxEpisodes), MaxEpisodesPerClient: uint64(l.MaxEpisodesPerClient),
		MaxInFlight: uint32(l.MaxInFlight), DefaultLeaseMs: milliseconds(l.DefaultLease),
		MaxLeaseMs: milliseconds(l.MaxLease), StepLimitMs: milliseconds(l.StepLimit),
		ResponseCacheEvents: uint32(l.ResponseCacheEvents),
		MaxItemsPerMessage:  uint32(l.MaxItemsPerMessage),
		MaxJournalBytes:     uint64(l.MaxJournalBytes), IdleLimitMs: milliseconds(l.IdleLimit),
		MaxImages: uint32(l.MaxImages), MaxImageBytes: uint64(l.MaxImageBytes),
		MaxImagesBytes: uint64(l.MaxImagesBytes),
	}
}

func (s *service) ListTasks(
	_ context.Context, r *envv1.ListTasksRequest,
) (*envv1.ListTasksResponse, error) {
	spec, err := s.commands.environments.find(r.Environment)
	if err != nil {
		return nil, callError(err)
	}
	listed := &envv1.ListTasksResponse{}
	add := func(index int) {
		summary := &envv1.TaskSummary{ItemId: spec.task(index).ItemID}
		if spec.Category != nil {
			summary.Category = spec.Category(index)
		}
		listed.Tasks = append(listed.Tasks, summary)
	}
	if len(r.ItemIds) > maxNamedItems {
		message := fmt.Sprintf("at most %d items can be asked for at once", maxNamedItems)
		return nil, callError(invalidArgument("item_ids", message))
	}
	if len(r.ItemIds) > 0 {
		for _, id := range r.ItemIds {
			task, err := findTask(spec, id)
			if err != nil {
				return nil, callError(err)
			}
			add(task.Index)
		}
		listed.TotalSize = uint64(len(r.ItemIds))
		return listed, nil
	}
	var names []string
	for _, split := range spec.Splits {
		if names = append(names, split.Name); split.Name != r.Split {
			continue
		}
		begin, end, next, err := page(r.PageToken, r.PageSize, split.Size)
		for index := begin; index < end; index++ {
			add(split.First + index)
		}
		listed.NextPageToken, listed.TotalSize = next, uint64(split.Size)
		return listed, callError(err)
	}
	message := fmt.Sprintf("%s has no split %q", spec.Name, r.Split)
	return nil, callError(refuse("UNKNOWN_SPLIT", message, "valid", strings.Join(names, ", ")))
}

func (s *service) ListEpisodes(
	ctx context.Context, r *envv1.ListEpisodesRequest,
) (*envv1.ListEpisodesResponse, error) {
	caller, err := s.clients.of(ctx)
	if err != nil {
		return nil, callError(err)
	}
	summaries := s.commands.summaries(caller, r.Environment)
	begin, end, next, err := page(r.PageToken, r.PageSize, len(summaries))
	if err != nil {
		return nil, callError(err)
	}
	return &envv1.ListEpisodesResponse{
		Episodes: summaries[begin:end], NextPageToken: next, TotalSize: uint64(len(summaries)),
	}, nil
}

// summaries are in the order of the ids, so that pages fit together.
func (c *commands) summaries(caller *client, environment string) []*envv1.EpisodeSummary {
	c.mu.Lock()
	defer c.mu.Unlock()
	var summaries []*envv1.EpisodeSummary
	for _, e := range c.episodes {
		name := e.opening.spec.Name
		isTheirs := e.client.name == caller.name || caller.has("operate")
		if !isTheirs || environment != "" && environment != name {
			continue
		}
		summaries = append(summaries, &envv1.EpisodeSummary{
			EpisodeId: e.id, Environment: name, ItemId: e.opening.task.ItemID, Seq: uint64(e.seq()),
			Ended: e.ended, InFlight: e.inFlight != nil, Attached: e.session != nil,
			IdleMs: uint64(time.Since(e.lastUsed).Milliseconds()),
		})
	}
	sort.Slice(summaries, func(a, b int) bool {
		return summaries[a].EpisodeId < summaries[b].EpisodeId
	})
	return summaries
}

func page(token string, size uint32, total int) (begin, end int, next string, err error) {
	if !pageToken.MatchString(token) {
		return 0, 0, "", invalidArgument("page_token", "page_token is none that this server gave")
	}
	begin, _ = strconv.Atoi(token) // of digits, few enough; nothing = 0
	if begin > total {
		begin = total
	}
	if size == 0 {
		size = defaultPage
	}
	end = begin + int(math.Min(float64(size), maxPage))
	if end >= total {
		return begin, total, "", nil
	}
	return begin, end, strconv.Itoa(end), nil
}

// callError is an error as the status of a call, with its details.
func callError(err error) error {
	if err == nil {
		return nil
	}
	return status.FromProto(toCommandError(err).status()).Err()
}
