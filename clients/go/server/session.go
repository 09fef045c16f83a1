package server

import (
	"sync"

	envv1 "agentgym/env/v1"
)

const (
	// Texts of a message that are together longer begin another one.
	messageBytes = 1 << 20
	// What may wait to be read before no more commands are taken.
	outboxBytes = 16 << 20
)

// session is one Interact stream, or one unary call: who calls, what it holds, and the events that
// wait to be sent.
type session struct {
	client *client
	// account is whose share of the server's room is used.
	account string
	limits  *Limits

	// Under Commands' lock.
	episodes map[*episode]bool
	detached bool
	inFlight int

	mu     sync.Mutex
	change *sync.Cond
	outbox []*envv1.Event
	bytes  int
	later  int
	closed bool
}

func newSession(client *client, account string, limits *Limits) *session {
	s := &session{client: client, account: account, limits: limits, episodes: map[*episode]bool{}}
	s.change = sync.NewCond(&s.mu)
	return s
}

func (s *session) answer(event *envv1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.outbox = append(s.outbox, event)
		s.bytes += sizeOf(event)
		s.change.Broadcast()
	}
}

// promise counts an answer that takes time, until keep.
func (s *session) promise() {
	s.mu.Lock()
	s.later++
	s.mu.Unlock()
}

func (s *session) keep(event *envv1.Event) {
	s.answer(event)
	s.mu.Lock()
	s.later--
	s.change.Broadcast()
	s.mu.Unlock()
}

// untilRead waits while the client has to read first.
func (s *session) untilRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes > outboxBytes && !s.closed {
		s.change.Wait()
	}
}

// next waits for events to send, at most a message full; none = all was answered, or it is closed.
// Without more to come it ends when `finished` says so and nothing is outstanding.
func (s *session) next(finished func() bool) []*envv1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.outbox) == 0 && !s.closed && !(finished() && s.later == 0) {
		s.change.Wait()
	}
	count, size := 0, 0
	for count < len(s.outbox) && count < s.limits.MaxItemsPerMessage {
		length := sizeOf(s.outbox[count])
		if count > 0 && size+length > messageBytes {
			break
		}
		size += length
		count++
	}
	events := s.outbox[:count:count]
	s.outbox = s.outbox[count:]
	s.bytes -= size
	s.change.Broadcast()
	return events
}

// wake lets next look again.
func (s *session) wake() {
	s.mu.Lock()
	s.change.Broadcast()
	s.mu.Unlock()
}

// close drops what is not sent yet, and all that comes.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.outbox, s.bytes = true, nil, 0
	s.change.Broadcast()
}

// sizeOf is about how long an event is: only observations are long.
func sizeOf(event *envv1.Event) int {
	size := len(event.GetObservation())
	for _, image := range event.Images {
		size += len(image.Content)
	}
	return size
}
