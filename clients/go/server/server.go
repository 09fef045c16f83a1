package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	envv1 "agentgym/env/v1"
)

const (
	reapEvery = 500 * time.Millisecond
	drainPoll = 50 * time.Millisecond
	// How long clients may still read what they were answered.
	goodbye = 2 * time.Second
	// Clients look for silent servers by pings; grpc-go ends connections for one in five minutes.
	pingEvery = time.Second
)

// Options of a server; the zero value is right for one on this machine.
type Options struct {
	// Address is HOST:PORT (port 0 = a free one) or unix:PATH; empty = 127.0.0.1:50051.
	Address string
	// Limits are DefaultLimits where they are nil.
	Limits *Limits
	// Token admits to everything.
	Token string
	// Tokens tell clients apart, by the clients' names.
	Tokens map[string]NamedToken
	TLS    *tls.Config
	// Insecure allows plain text on an address that is not this machine's alone.
	Insecure bool
}

// Server serves environments.
type Server struct {
	// Address is HOST:PORT as it was bound.
	Address string

	server   *grpc.Server
	service  *service
	health   *health.Server
	finished chan struct{}
}

// Start serves environments until Drain.
func Start(specs []Spec, options Options) (*Server, error) {
	hosted := environments{}
	for at := range specs {
		hosted[specs[at].Name] = &specs[at]
	}
	if len(specs) == 0 || len(hosted) < len(specs) {
		return nil, fmt.Errorf("a server needs environments, each with a name of its own")
	}
	limits := DefaultLimits()
	if options.Limits != nil {
		limits = *options.Limits
	}
	clients, err := newClients(options.Token, options.Tokens)
	if err != nil {
		return nil, err
	}
	listener, err := listen(options)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Address: address(listener), server: newGRPC(options, clients, &limits),
		health: health.NewServer(), finished: make(chan struct{}),
		service: &service{
			commands: newCommands(hosted, &limits), clients: clients, limits: &limits,
			instance: randomName(), stop: make(chan struct{}),
		},
	}
	envv1.RegisterEnvironmentServiceServer(s.server, s.service)
	healthpb.RegisterHealthServer(s.server, s.health)
	reflection.Register(s.server)
	for _, name := range append(hosted.names(), "", "agentgym.env.v1.EnvironmentService") {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	go func() { _ = s.server.Serve(listener) }() // it ends with Drain
	go s.reap()
	return s, nil
}

// Drain opens no more episodes, lets attached ones end for so long, and then ends the server (R48).
func (s *Server) Drain(patience time.Duration) {
	s.health.Shutdown()
	s.service.commands.mu.Lock()
	s.service.commands.admission.draining = true
	s.service.commands.mu.Unlock()
	for until := time.Now().Add(patience); s.service.commands.busy() && time.Now().Before(until); {
		time.Sleep(drainPoll)
	}
	close(s.service.stop)
	over := time.AfterFunc(goodbye, s.server.Stop)
	s.server.GracefulStop()
	over.Stop()
	close(s.finished)
}

func (s *Server) reap() {
	ticker := time.NewTicker(reapEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.service.commands.reap()
		case <-s.finished:
			return
		}
	}
}

func newGRPC(options Options, clients clients, limits *Limits) *grpc.Server {
	settings := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(limits.MaxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true},
		),
		grpc.UnaryInterceptor(func(
			ctx context.Context, request interface{}, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler,
		) (interface{}, error) {
			if _, err := clients.of(ctx); err != nil {
				return nil, callError(err)
			}
			return call(ctx, request)
		}),
		grpc.StreamInterceptor(func(
			service interface{}, s grpc.ServerStream, _ *grpc.StreamServerInfo, call grpc.StreamHandler,
		) error {
			if _, err := clients.of(s.Context()); err != nil {
				return callError(err)
			}
			return call(service, s)
		}),
	}
	if options.TLS != nil {
		settings = append(settings, grpc.Creds(credentials.NewTLS(options.TLS)))
	}
	return grpc.NewServer(settings...)
}

func listen(options Options) (net.Listener, error) {
	wanted := options.Address
	if wanted == "" {
		wanted = "127.0.0.1:50051"
	}
	if path := strings.TrimPrefix(wanted, "unix:"); path != wanted {
		return net.Listen("unix", path)
	}
	host, _, err := net.SplitHostPort(wanted)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(host)
	isLocal := host == "localhost" || ip != nil && ip.IsLoopback()
	if !isLocal && options.TLS == nil && !options.Insecure {
		return nil, fmt.Errorf("%s is not this machine's alone: set TLS, or Insecure", wanted)
	}
	return net.Listen("tcp", wanted)
}

func address(listener net.Listener) string {
	if listener.Addr().Network() == "unix" {
		return "unix:" + listener.Addr().String()
	}
	return listener.Addr().String()
}

func randomName() string {
	name := make([]byte, 8)
	if _, err := rand.Read(name); err != nil {
		panic(err) // the system has no randomness
	}
	return hex.EncodeToString(name)
}
