package server

import (
	"fmt"
	"strconv"
	"time"
)

// episode has the rules of one episode: sequence numbers, kept results, journal, lease. All of it is
// under Commands' lock, and time is passed in.
type episode struct {
	id       string
	client   *client
	opening  opening
	resetKey string
	// originKey tells how it was opened: the same command again is answered, another one is refused.
	originKey string
	lease     time.Duration
	game      *game
	account   *account
	limits    *Limits

	journal      []stepInput
	hashes       [][]byte // by seq, from 0 on
	results      []result // of the last seqs
	journalBytes int
	ended        bool
	failure      error
	inFlight     *flight[result]
	executing    stepInput
	session      *session
	lastUsed     time.Time
}

type decision int

const (
	execute decision = iota
	replay
	join
)

// seq is the current state.
func (e *episode) seq() int { return len(e.journal) }

// decide judges a step by the sequence rules.
func (e *episode) decide(seq uint64, input stepInput) (decision, error) {
	if e.inFlight != nil && seq == uint64(e.inFlight.seq) {
		if input == e.executing {
			return join, nil
		}
		return 0, seqConflict(e.id, fmt.Sprintf("executes seq %d with another input", seq))
	}
	if seq > 0 && seq <= uint64(e.seq()) {
		if e.journal[seq-1] == input {
			return replay, nil
		}
		if e.inFlight == nil {
			return 0, seqConflict(e.id, fmt.Sprintf("was sent seq %d with another input", seq))
		}
	}
	next := e.seq() + 1
	switch {
	case e.inFlight != nil:
		return 0, episodeBusy(e.id, e.inFlight.seq)
	case seq != uint64(next):
		return 0, seqGap(e.id, next, fmt.Sprintf("the next step is %d, not %d", next, seq))
	case e.ended:
		return 0, refuse("EPISODE_ENDED", fmt.Sprintf("episode %s ended at seq %d", e.id, e.seq()))
	}
	return execute, e.failure
}

// commit records an executed step.
func (e *episode) commit(input stepInput, reached result) {
	e.journal = append(e.journal, input)
	e.hashes = append(e.hashes, reached.stateHash)
	e.keep(reached)
	e.journalBytes += input.bytes()
	if limit := e.limits.MaxJournalBytes; limit > 0 && e.journalBytes > limit {
		e.failure = textTooLong("the inputs of an episode together", limit)
	}
}

func (e *episode) keep(reached result) {
	e.results = append(e.results, reached)
	if len(e.results) > e.limits.ResponseCacheEvents {
		e.results = append(e.results[:0:0], e.results[1:]...)
	}
	e.ended = e.ended || reached.observation.Terminated || reached.observation.Truncated
}

// result returns what a seq led to, while it is kept.
func (e *episode) result(seq int) (result, error) {
	oldest := e.seq() - len(e.results) + 1
	if seq < oldest || seq > e.seq() {
		message := fmt.Sprintf("the result of seq %d of episode %s is no longer kept", seq, e.id)
		return result{}, refuse("RESPONSE_EVICTED", message, "oldest", strconv.Itoa(oldest))
	}
	return e.results[seq-oldest], nil
}

func (e *episode) attach(to *session) {
	e.lastUsed = time.Now()
	if e.session != to && !to.detached {
		e.detach(e.lastUsed)
		e.session = to
		to.episodes[e] = true
	}
}

func (e *episode) detach(now time.Time) {
	if e.session != nil {
		delete(e.session.episodes, e)
	}
	e.session, e.lastUsed = nil, now
}

// expired says why its time is up; empty = it is not.
func (e *episode) expired(now time.Time) string {
	unused := now.Sub(e.lastUsed)
	switch {
	case e.inFlight != nil:
		return ""
	case e.session == nil && unused > e.lease:
		return "LEASE"
	case e.session != nil && e.limits.IdleLimit > 0 && unused > e.limits.IdleLimit:
		return "IDLE"
	}
	return ""
}

// flight is something that takes time, and those who wait for it. It goes on when all of them have
// given up.
type flight[T any] struct {
	seq   int
	done  chan struct{}
	value T
	err   error
	// cancel is closed to let those who wait now give up.
	cancel chan struct{}
}

func newFlight[T any](seq int) *flight[T] {
	return &flight[T]{seq: seq, done: make(chan struct{}), cancel: make(chan struct{})}
}

func (f *flight[T]) land(value T, err error) {
	f.value, f.err = value, err
	close(f.done)
}

// giveUp answers those who wait now; call it with Commands' lock held.
func (f *flight[T]) giveUp() {
	close(f.cancel)
	f.cancel = make(chan struct{})
}

// join returns how to wait no longer than a command allows; call it with Commands' lock held.
func (f *flight[T]) join(episodeID string, deadlineMs uint32) func() (T, error) {
	cancel := f.cancel
	return func() (nothing T, err error) {
		var late <-chan time.Time
		if deadlineMs > 0 {
			timer := time.NewTimer(time.Duration(deadlineMs) * time.Millisecond)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-f.done:
			select {
			case <-cancel: // given up before it landed, and both were seen at once
				return nothing, gaveUp("CANCELLED", episodeID)
			default:
				return f.value, f.err
			}
		case <-cancel:
			return nothing, gaveUp("CANCELLED", episodeID)
		case <-late:
			return nothing, gaveUp("DEADLINE_EXCEEDED", episodeID)
		}
	}
}
