// Package server serves environments to AgentGym over gRPC.
//
// The author of an environment writes Reset and Step, for one episode at a time; the package does the
// protocol (docs/protocol.md): streams, sequence numbers, journals, forks, leases, limits, errors.
package server

import (
	"context"

	envv1 "agentgym/env/v1"
)

// Task is one task: the integer of its item id is all that the server knows of it.
type Task struct {
	// ItemID is NAME_INDEX.
	ItemID string
	Index  int
}

// Split is a set of tasks in a row: Size of them from First on.
type Split struct {
	Name  string
	First int
	Size  int
}

// ResetOptions say how a client wants an episode to be.
type ResetOptions struct {
	Seed    uint64
	Profile string
	// Options have only names that the environment lists; their values are for it to check
	// (InvalidOption).
	Options map[string]interface{}
}

// Image is what the agent itself sees beside the text: rules R67 and R68 of the protocol.
type Image struct {
	// MediaType is image/png, image/jpeg or image/webp.
	MediaType string
	Content   []byte
}

// Observation is what a reset or a step shows.
type Observation struct {
	Text string
	// Reward is nil where nothing was scored, which is not 0.
	Reward *float64
	// Score is what the episode would score if it ended here; only with HasScore.
	Score *float64
	// Terminated says that the task is over by its own rules, Truncated that a limit of the
	// environment cut it off; either needs a StopReason.
	Terminated bool
	Truncated  bool
	StopReason envv1.StopReason
	// Images need HasImages; they are sent to clients that take them.
	Images []Image
	// Info has JSON values that no client needs to understand.
	Info map[string]interface{}
}

// Advice is what a scripted player would do.
type Advice struct {
	// Action is native.
	Action string
	// Thought is a short true reason for it.
	Thought string
}

// View is a picture of a state: rules R64 to R66 of the protocol.
type View struct {
	Name      string
	Title     string
	MediaType string
	Content   []byte
}

// Environment is one episode. Its methods are called by one goroutine at a time, and a panic ends the
// episode alone. The context of a step is done when nobody waits for it any more; what it returns
// counts all the same. Further methods are capabilities: see Forker, Fingerprinter, Expert,
// RandomPlayer, IdlePlayer, Renderer; and Close() error, where there is something to release.
type Environment interface {
	Reset(ctx context.Context, task Task, options ResetOptions) (Observation, error)
	Step(ctx context.Context, action string) (Observation, error)
}

// Forker makes a copy in the same state; without it the server plays the journal again.
type Forker interface{ Fork() Environment }

// Fingerprinter tells all that decides about the future; without it states are told apart by what was
// seen.
type Fingerprinter interface{ Fingerprint() []byte }

// Expert knows what to do next.
type Expert interface{ AdviseExpert(seed uint64) Advice }

// RandomPlayer draws a plausible action.
type RandomPlayer interface{ AdviseRandom(seed uint64) Advice }

// IdlePlayer does what changes nothing; without it that is the empty action.
type IdlePlayer interface{ AdviseNoop() Advice }

// Renderer draws the state.
type Renderer interface{ Render() []View }

// ConversationStart opens a conversation in one action format.
type ConversationStart struct {
	Format      envv1.ActionFormat
	Instruction string
	// Acknowledgement is what the model is made to answer; empty = that it follows the instructions.
	Acknowledgement string
}

// Spec is an environment as it is served.
type Spec struct {
	Name string
	// Version changes when observations, rewards or tasks change.
	Version     string
	Description string
	Splits      []Split
	// Category is the task type of an item, for tables; nil = there are no types.
	Category func(index int) string
	Grammar  Grammar
	// ConversationStarts are for the formats that are spoken, in order of preference.
	ConversationStarts []ConversationStart
	MaxRounds          uint32
	// Metric is the success rate where it is not given, and SuccessScore then 1.
	Metric       envv1.Metric
	SuccessScore float64
	// NotDeterministic says that the same reset and actions may give other states.
	NotDeterministic bool
	HasScore         bool
	// HasImages says that observations can have images, where an option asks for them.
	HasImages bool
	// Options are the names of options.
	Options []string
	// Profiles begin with the default; none = "default".
	Profiles []string
	// New returns a fresh episode, before its reset. The server makes one to see what it can do.
	New func() Environment
}

// InvalidOption is returned by Reset for an option with an impossible value.
type InvalidOption struct {
	Message string
	// Valid says what would have been right.
	Valid string
}

func (e *InvalidOption) Error() string { return e.Message }

func (s *Spec) profiles() []string {
	if len(s.Profiles) == 0 {
		return []string{"default"}
	}
	return s.Profiles
}

func (s *Spec) capabilities() []envv1.Capability {
	probe := s.New()
	_, forks := probe.(Forker)
	_, advises := probe.(Expert)
	_, draws := probe.(Renderer)
	var has []envv1.Capability
	for _, each := range []struct {
		has        bool
		capability envv1.Capability
	}{
		{!s.NotDeterministic, envv1.Capability_CAPABILITY_DETERMINISTIC},
		{forks || !s.NotDeterministic, envv1.Capability_CAPABILITY_FORK},
		{advises, envv1.Capability_CAPABILITY_EXPERT},
		{s.HasScore, envv1.Capability_CAPABILITY_SCORE},
		{draws, envv1.Capability_CAPABILITY_RENDER},
		{s.HasImages, envv1.Capability_CAPABILITY_IMAGES},
	} {
		if each.has {
			has = append(has, each.capability)
		}
	}
	return has
}
