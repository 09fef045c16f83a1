// Package agentgym plays AgentGym environments over gRPC.
//
// A Connection is one stream to one server, kept alive across losses; it carries any number of
// episodes. Every command is kept until its event arrives. When the stream breaks, another is opened
// and all that waits is sent again under the same (episode_id, seq), which the protocol makes safe.
package agentgym

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	envv1 "agentgym/env/v1"
)

const (
	contractRevision = 1
	// Commands of a message (R3).
	maxItems = 128
	// Of commands whose seq is ignored: their answers answer nothing else.
	noSeq = math.MaxUint64
	// Streams that may break in a row while a command waits.
	maxBreaks = 16
	pageSize  = 1000
)

var waits = [...]time.Duration{
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second,
}

// Options of a connection; the zero value is right for a server on this machine.
type Options struct {
	// TLS of the connection; nil = none.
	TLS *tls.Config
	// Token is sent as "authorization: Bearer TOKEN"; only over TLS or to this machine.
	Token string
	// ConnectDeadline is how long a lost server is waited for; 0 = 30 s.
	ConnectDeadline time.Duration
}

// Connection to one server. Its methods may be called from any goroutine.
type Connection struct {
	// Service has the calls as they are generated.
	Service envv1.EnvironmentServiceClient

	address  string
	channel  *grpc.ClientConn
	deadline time.Duration
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}

	mu         sync.Mutex
	reconnects int
	waiting    map[string]*waiting
	attached   map[string]uint64 // the last seq whose event arrived, of each open episode
	outbox     *outbox           // of the stream that has credits; nil = there is none
	failure    error
}

type waiting struct {
	command *envv1.Command
	breaks  int
	answer  chan answer // one, buffered
}

type answer struct {
	event *envv1.Event
	err   error
}

// Connect to HOST:PORT. Nothing waits for the server before the first command.
func Connect(address string, options Options) (*Connection, error) {
	dialing, err := dialOptions(address, options)
	if err != nil {
		return nil, err
	}
	channel, err := grpc.Dial(address, dialing...)
	if err != nil {
		return nil, err
	}
	c := &Connection{
		Service:  envv1.NewEnvironmentServiceClient(channel),
		address:  address,
		channel:  channel,
		deadline: options.ConnectDeadline,
		done:     make(chan struct{}),
		waiting:  map[string]*waiting{},
		attached: map[string]uint64{},
	}
	if c.deadline == 0 {
		c.deadline = 30 * time.Second
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c, nil
}

func dialOptions(address string, options Options) ([]grpc.DialOption, error) {
	security := grpc.WithInsecure()
	if options.TLS != nil {
		security = grpc.WithTransportCredentials(credentials.NewTLS(options.TLS))
	}
	dialing := []grpc.DialOption{
		security,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if options.Token != "" {
		if options.TLS == nil && !isLocal(address) {
			return nil, fmt.Errorf("a token is sent to %s only over TLS: set Options.TLS", address)
		}
		dialing = append(dialing, grpc.WithPerRPCCredentials(bearer(options.Token)))
	}
	return dialing, nil
}

// Close ends the stream. Episodes that are open live on under their leases.
func (c *Connection) Close() error {
	c.fail(fmt.Errorf("%w: the connection to %s was closed", ErrConnectionLost, c.address))
	c.cancel()
	<-c.done
	return c.channel.Close()
}

// Reconnects returns how often a broken stream was opened again.
func (c *Connection) Reconnects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnects
}

// Environments returns the names of those that the server hosts.
func (c *Connection) Environments(ctx context.Context) ([]string, error) {
	response, err := c.Service.ListEnvironments(ctx, &envv1.ListEnvironmentsRequest{})
	return response.GetEnvironments(), fromCall(err)
}

// Describe returns everything that a client has to know of one environment.
func (c *Connection) Describe(
	ctx context.Context, environment string,
) (*envv1.GetEnvironmentResponse, error) {
	request := &envv1.GetEnvironmentRequest{
		Environment: environment, ContractRevision: contractRevision,
	}
	response, err := c.Service.GetEnvironment(ctx, request)
	return response, fromCall(err)
}

// Tasks returns up to `limit` tasks of a split in their order; 0 = all.
func (c *Connection) Tasks(
	ctx context.Context, environment, split string, limit int,
) ([]*envv1.TaskSummary, error) {
	request := &envv1.ListTasksRequest{Environment: environment, Split: split, PageSize: pageSize}
	var tasks []*envv1.TaskSummary
	for {
		page, err := c.Service.ListTasks(ctx, request)
		if err != nil {
			return nil, fromCall(err)
		}
		tasks = append(tasks, page.GetTasks()...)
		if limit > 0 && len(tasks) >= limit {
			return tasks[:limit], nil
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return tasks, nil
		}
	}
}

// exchange sends a command until its event arrives; one of an episode at a time.
func (c *Connection) exchange(ctx context.Context, command *envv1.Command) (*envv1.Event, error) {
	id := command.GetEpisodeId()
	it := &waiting{command: command, answer: make(chan answer, 1)}
	if err := c.submit(id, it); err != nil {
		return nil, err
	}
	select {
	case got := <-it.answer:
		return got.event, got.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
		return nil, ctx.Err()
	}
}

func (c *Connection) submit(id string, it *waiting) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	if c.waiting[id] != nil {
		return fmt.Errorf("episode %s: a command is in flight", id)
	}
	c.waiting[id] = it
	if c.outbox != nil {
		c.outbox.push(it.command)
	}
	return nil
}

// attach keeps an episode attached across streams; seq is the last whose event arrived.
func (c *Connection) attach(id string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached[id] = seq
}

func (c *Connection) detach(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attached, id)
}

// run opens a stream again and again until the connection fails or is closed.
func (c *Connection) run() {
	defer close(c.done)
	lostSince := time.Now()
	for attempt := 0; ; attempt++ {
		opened, cause := c.stream()
		if opened {
			attempt, lostSince = 0, time.Now()
			c.countBreak(cause)
		}
		if refused, ok := fromCall(cause).(*Error); ok &&
			refused.Reason == envv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
			c.fail(refused)
			return
		}
		if time.Since(lostSince) > c.deadline {
			c.fail(fmt.Errorf("%w: no server at %s: %v", ErrConnectionLost, c.address, cause))
			return
		}
		wait := len(waits) - 1
		if attempt < wait {
			wait = attempt
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(waits[wait]):
		}
	}
}

// stream plays one stream until it breaks; opened says whether it ever had credits.
func (c *Connection) stream() (opened bool, cause error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	call, err := c.Service.Interact(ctx)
	if err != nil {
		return false, err
	}
	for {
		response, err := call.Recv()
		if err == io.EOF {
			return opened, fmt.Errorf("the server ended the stream")
		}
		if err != nil {
			return opened, err
		}
		if !opened {
			opened = true
			go c.begin().sendTo(ctx, call)
		}
		for _, event := range response.GetEvents() {
			c.receive(event)
		}
	}
}

// begin sends all that waits: the stream's first event, its credits, arrived.
func (c *Connection) begin() *outbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbox = &outbox{wake: make(chan struct{}, 1)}
	for _, it := range c.waiting {
		c.outbox.push(it.command)
	}
	for id, seq := range c.attached {
		if c.waiting[id] == nil {
			attach := &envv1.Attach{LastSeqSeen: int64(seq)}
			c.outbox.push(&envv1.Command{
				EpisodeId: id, Seq: noSeq, Body: &envv1.Command_Attach{Attach: attach},
			})
		}
	}
	return c.outbox
}

func (c *Connection) receive(event *envv1.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.waiting[event.GetEpisodeId()]
	if it == nil || it.command.GetSeq() != event.GetSeq() {
		return // credits, answers of attach, and of what nobody waits for
	}
	delete(c.waiting, event.GetEpisodeId())
	it.answer <- answer{event: event}
}

func (c *Connection) countBreak(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbox = nil
	c.reconnects++
	for id, it := range c.waiting {
		if it.breaks++; it.breaks >= maxBreaks {
			delete(c.waiting, id)
			it.answer <- answer{err: fmt.Errorf(
				"%w: episode %s: %d streams in a row broke: %v", ErrConnectionLost, id, maxBreaks, cause,
			)}
		}
	}
}

func (c *Connection) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
	for id, it := range c.waiting {
		delete(c.waiting, id)
		it.answer <- answer{err: c.failure}
	}
}

// outbox holds commands on their way into one stream.
type outbox struct {
	mu    sync.Mutex
	queue []*envv1.Command
	wake  chan struct{} // buffered
}

func (o *outbox) push(command *envv1.Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, command)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) take() []*envv1.Command {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := len(o.queue)
	if count > maxItems {
		count = maxItems
	}
	taken := o.queue[:count:count]
	o.queue = o.queue[count:]
	return taken
}

func (o *outbox) sendTo(ctx context.Context, call envv1.EnvironmentService_InteractClient) {
	for {
		commands := o.take()
		if len(commands) == 0 {
			select {
			case <-o.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if call.Send(&envv1.InteractRequest{Commands: commands}) != nil {
			return // Recv says why
		}
	}
}

// bearer is a token for every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity: dialOptions has seen to it.
func (bearer) RequireTransportSecurity() bool { return false }

func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
