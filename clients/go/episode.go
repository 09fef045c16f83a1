package agentgym

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	envv1 "agentgym/env/v1"
)

const (
	// Rebuilds without a step between them.
	maxRebuilds = 8
	// How long a command is refused for want of room before its error is returned.
	patience = time.Minute
	// Between two attempts where the server does not say.
	roomWait = 500 * time.Millisecond
)

// Transition is what a reset or a step led to.
type Transition struct {
	Seq         uint64
	Observation string
	// Reward of the step; nil = not scored, which is not 0.
	Reward *float64
	// Score is what the episode would score if it ended here.
	Score      *float64
	Terminated bool
	Truncated  bool
	StopReason envv1.StopReason
	// ParsedAction is the native action that the server read in a reply; nil = it was unreadable.
	ParsedAction *string
}

// Ended says whether the episode takes no more steps.
func (t *Transition) Ended() bool { return t.Terminated || t.Truncated }

// Episode on a server, for one goroutine at a time.
//
// It keeps its inputs (the journal) and the state hash after each. Where the server no longer knows
// it, it is opened again with the journal; every hash must come out again (R26, R27). A step whose
// context ended may have been applied: only the same step may follow.
type Episode struct {
	// ID is one that nobody can guess.
	ID string
	// Seq is the state it is in: the number of its steps.
	Seq uint64
	// Rebuilds is how often it was opened again with its journal.
	Rebuilds int

	connection    *Connection
	reset         *envv1.Reset // with the journal so far
	rebuildsInRow int
}

// Open an episode of the task that `reset` describes; its journal is the episode's from then on.
func Open(
	ctx context.Context, connection *Connection, reset *envv1.Reset,
) (*Episode, *Transition, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, nil, err
	}
	e := &Episode{ID: hex.EncodeToString(id), connection: connection, reset: reset}
	event, err := e.command(ctx, &envv1.Command{Body: &envv1.Command_Reset_{Reset_: reset}})
	if err != nil {
		return nil, nil, err
	}
	reset.InitialStateHash = event.GetStateHash()
	connection.attach(e.ID, 0)
	return e, toTransition(event), nil
}

// Step applies a native action.
func (e *Episode) Step(ctx context.Context, action string) (*Transition, error) {
	return e.step(ctx,
		&envv1.Command{Body: &envv1.Command_Action{Action: action}},
		&envv1.ActionInput{Input: &envv1.ActionInput_Action{Action: action}})
}

// StepReply applies a model's whole reply; the server reads the action in it, in the given format or,
// where that is unspecified, the episode's.
func (e *Episode) StepReply(
	ctx context.Context, reply string, format envv1.ActionFormat,
) (*Transition, error) {
	return e.step(ctx,
		&envv1.Command{Body: &envv1.Command_Reply{Reply: reply}, ActionFormat: format},
		&envv1.ActionInput{Input: &envv1.ActionInput_Reply{Reply: reply}, ActionFormat: format})
}

// StepCall applies a function call; argumentsJSON is a JSON object.
func (e *Episode) StepCall(ctx context.Context, name, argumentsJSON string) (*Transition, error) {
	call := &envv1.ToolCall{Name: name, ArgumentsJson: argumentsJSON}
	return e.step(ctx,
		&envv1.Command{Body: &envv1.Command_ToolCall{ToolCall: call}},
		&envv1.ActionInput{Input: &envv1.ActionInput_ToolCall{ToolCall: call}})
}

// Advice asks a scripted player what it would do in this state; changes nothing.
func (e *Episode) Advice(
	ctx context.Context, advisor envv1.Advisor, seed uint64,
) (*envv1.Advice, error) {
	consult := &envv1.Consult{Advisor: advisor, Seed: seed}
	event, err := e.command(ctx, &envv1.Command{
		Seq: e.Seq, Body: &envv1.Command_Consult{Consult: consult},
	})
	return event.GetAdvice(), err
}

// Heartbeat keeps the server from ending an episode whose agent thinks for minutes.
func (e *Episode) Heartbeat(ctx context.Context) error {
	beat := &envv1.Command_Heartbeat{Heartbeat: &envv1.Heartbeat{}}
	_, err := e.command(ctx, &envv1.Command{Seq: e.Seq, Body: beat})
	return err
}

// Close ends the episode on the server.
func (e *Episode) Close(ctx context.Context) error {
	e.connection.detach(e.ID)
	end := &envv1.Command_Close{Close: &envv1.Close{}}
	_, err := e.command(ctx, &envv1.Command{Seq: e.Seq, Body: end})
	return err
}

func (e *Episode) step(
	ctx context.Context, command *envv1.Command, input *envv1.ActionInput,
) (*Transition, error) {
	command.Seq = e.Seq + 1
	event, err := e.command(ctx, command)
	if err != nil {
		return nil, err
	}
	entry := &envv1.JournalEntry{Input: input, StateHash: event.GetStateHash()}
	e.reset.Journal = append(e.reset.Journal, entry)
	e.Seq = command.Seq
	e.connection.attach(e.ID, e.Seq)
	return toTransition(event), nil
}

// command is sent until it is answered, through losses of streams and servers.
func (e *Episode) command(ctx context.Context, command *envv1.Command) (*envv1.Event, error) {
	until := time.Now().Add(patience)
	opening := command.GetReset_() != nil
	for {
		event, err := e.exchange(ctx, command)
		var refused *Error
		switch {
		case err == nil:
			e.rebuildsInRow = 0
			return event, nil
		case !errors.As(err, &refused):
			return nil, err
		case !opening && e.isBehind(refused) && e.rebuildsInRow < maxRebuilds:
			err = e.rebuild(ctx, refused, until)
		default:
			err = waitFor(ctx, refused, until)
		}
		if err != nil {
			return nil, err
		}
	}
}

// exchange sends a command once; an error event is an *Error.
func (e *Episode) exchange(ctx context.Context, command *envv1.Command) (*envv1.Event, error) {
	command.EpisodeId = e.ID
	event, err := e.connection.exchange(ctx, command)
	if err == nil && event.GetError() != nil {
		return nil, fromStatus(event.GetError())
	}
	return event, err
}

// isBehind says whether the server does not know the episode, or only an older state of it.
func (e *Episode) isBehind(refused *Error) bool {
	switch refused.Reason {
	case envv1.ErrorReason_ERROR_REASON_EPISODE_NOT_FOUND:
		return true
	case envv1.ErrorReason_ERROR_REASON_SEQ_GAP:
		expected, err := strconv.ParseUint(refused.Metadata["expected"], 10, 64)
		return err == nil && expected <= e.Seq
	}
	return false
}

// rebuild opens the episode again where it was; the server checks every hash.
func (e *Episode) rebuild(ctx context.Context, lost *Error, until time.Time) error {
	e.Rebuilds++
	e.rebuildsInRow++
	reset := &envv1.Command{Seq: e.Seq, Body: &envv1.Command_Reset_{Reset_: e.reset}}
	for {
		_, err := e.exchange(ctx, reset)
		var refused *Error
		if !errors.As(err, &refused) {
			return err
		}
		if refused.Reason == envv1.ErrorReason_ERROR_REASON_UNSUPPORTED_CAPABILITY {
			return lost // the environment is not deterministic: the episode is gone
		}
		if err := waitFor(ctx, refused, until); err != nil {
			return err
		}
	}
}

// waitFor waits where that can help, else returns the error.
func waitFor(ctx context.Context, refused *Error, until time.Time) error {
	switch refused.Reason {
	case envv1.ErrorReason_ERROR_REASON_CAPACITY_EXHAUSTED,
		envv1.ErrorReason_ERROR_REASON_CREDITS_EXCEEDED,
		envv1.ErrorReason_ERROR_REASON_DRAINING:
	default:
		return refused
	}
	delay := refused.RetryAfter
	if delay == 0 {
		delay = roomWait
	}
	if time.Now().Add(delay).After(until) {
		return fmt.Errorf("waited for %v: %w", patience, refused)
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func toTransition(event *envv1.Event) *Transition {
	return &Transition{
		Seq:          event.GetSeq(),
		Observation:  event.GetObservation(),
		Reward:       event.Reward,
		Score:        event.Score,
		Terminated:   event.GetTerminated(),
		Truncated:    event.GetTruncated(),
		StopReason:   event.GetStopReason(),
		ParsedAction: event.ParsedAction,
	}
}
