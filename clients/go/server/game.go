package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"time"

	envv1 "agentgym/env/v1"
)

// result is what a reset or a step led to.
type result struct {
	observation Observation
	stateHash   []byte
	// parsedAction is nil for a reset, and where no action could be read.
	parsedAction *string
}

// opening says how an episode begins.
type opening struct {
	spec    *Spec
	task    Task
	options ResetOptions
	format  envv1.ActionFormat
	// images says that the client takes them.
	images bool
}

const hashBytes = 8

var (
	viewName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	// How a file of each type begins.
	imageBeginnings = map[string]imageBeginning{
		"image/png":  {"\x89PNG\r\n\x1a\n", ""},
		"image/jpeg": {"\xff\xd8\xff", ""},
		"image/webp": {"RIFF", "WEBP"},
	}
)

// imageBeginning is how a file begins, and what follows after its size where there is one.
type imageBeginning struct{ first, afterSize string }

// matches says whether a file begins so.
func (b imageBeginning) matches(content []byte) bool {
	if !bytes.HasPrefix(content, []byte(b.first)) {
		return false
	}
	after := len(b.first) + 4
	return b.afterSize == "" || len(content) > after && bytes.HasPrefix(content[after:], []byte(b.afterSize))
}

// game is a live environment with the hash of its state and what it last showed. Its operations are
// executed one after another, in the order in which they are begun; begin one with Commands' lock held.
type game struct {
	spec        *Spec
	environment Environment
	limits      *Limits
	last        result
	// tail is closed when the operation that was begun last is over.
	tail chan struct{}
	// interrupt ends the step in flight early, where the environment listens.
	interrupt context.CancelFunc
}

func newGame(spec *Spec, environment Environment, limits *Limits) *game {
	return &game{spec: spec, environment: environment, limits: limits, interrupt: func() {}}
}

// future is the outcome of an operation.
type future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

type outcome[T any] struct {
	value T
	err   error
}

func (f *future[T]) wait() (T, error) {
	<-f.done
	return f.value, f.err
}

// begin calls an environment's own code; what does not come back in time is ENVIRONMENT_HUNG.
func begin[T any](g *game, call func() (T, error)) *future[T] {
	begun := &future[T]{done: make(chan struct{})}
	before, own := g.tail, make(chan struct{})
	g.tail = own
	returned := make(chan outcome[T], 1)
	go func() {
		if before != nil {
			<-before
		}
		defer close(own)
		value, err := guarded(call)
		returned <- outcome[T]{value, err}
	}()
	go func() {
		defer close(begun.done)
		timer := time.NewTimer(g.limits.StepLimit)
		defer timer.Stop()
		select {
		case it := <-returned:
			begun.value, begun.err = it.value, it.err
		case <-timer.C:
			message := fmt.Sprintf("environment %s did not answer in %s", g.spec.Name, g.limits.StepLimit)
			begun.err = refuse("ENVIRONMENT_HUNG", message)
		}
	}()
	return begun
}

func guarded[T any](call func() (T, error)) (value T, err error) {
	defer func() {
		if failure := recover(); failure != nil { // boundary: whatever an author's code panics with
			err = refuse("ENVIRONMENT_CRASHED", fmt.Sprintf("the environment panicked: %v", failure))
		}
	}()
	return call()
}

// openGame begins an episode and plays a journal; the results are of every seq, from 0 on. Hashes are
// by seq, empty ones are not checked.
func openGame(
	o opening, journal []stepInput, hashes [][]byte, limits *Limits,
) (*game, []result, error) {
	g := newGame(o.spec, o.spec.New(), limits)
	first, err := begin(g, func() (result, error) {
		observation, err := g.environment.Reset(context.Background(), o.task, o.options)
		if err != nil {
			return result{}, err
		}
		return g.record(observation, nil)
	}).wait()
	results := []result{first}
	if err == nil {
		err = requireHash(first, hashes, 0)
	}
	for at := 0; at < len(journal) && err == nil; at++ {
		var next result
		if next, err = g.step(journal[at]).wait(); err == nil {
			results = append(results, next)
			err = requireHash(next, hashes, at+1)
		}
	}
	if err != nil {
		g.close()
		return nil, nil, err
	}
	return g, results, nil
}

func requireHash(reached result, hashes [][]byte, seq int) error {
	if seq >= len(hashes) || len(hashes[seq]) == 0 || bytes.Equal(hashes[seq], reached.stateHash) {
		return nil
	}
	return diverged(fmt.Sprintf("the journal leads to another state at seq %d", seq), seq)
}

// step applies an input.
func (g *game) step(input stepInput) *future[result] {
	ctx, cancel := context.WithCancel(context.Background())
	g.interrupt = cancel
	return begin(g, func() (result, error) {
		defer cancel()
		action, read := g.read(input)
		if !read {
			last := g.last.observation
			text := "Invalid Action.\n\n" + last.Text
			return g.record(Observation{Text: text, Score: last.Score}, nil)
		}
		observation, err := g.environment.Step(ctx, action)
		if err != nil {
			return result{}, err
		}
		return g.record(observation, &action)
	})
}

func (g *game) read(input stepInput) (action string, read bool) {
	type reading struct {
		action string
		read   bool
	}
	it, err := guarded(func() (reading, error) {
		switch input.kind {
		case kindReply:
			action, read := g.spec.Grammar.read(input.text, input.format)
			return reading{action, read}, nil
		case kindToolCall:
			action, read := g.spec.Grammar.readToolCall(input.name, input.text)
			return reading{action, read}, nil
		}
		return reading{input.text, true}, nil
	})
	return it.action, it.read && err == nil // a verb's Render met arguments that nobody foresaw
}

// fork copies the present state; nil = the environment cannot.
func (g *game) fork() *future[*game] {
	if _, can := g.environment.(Forker); !can {
		return nil
	}
	return begin(g, func() (*game, error) {
		copied := newGame(g.spec, g.environment.(Forker).Fork(), g.limits)
		copied.last = g.last
		return copied, nil
	})
}

func (g *game) advise(advisor envv1.Advisor, seed uint64) *future[Advice] {
	return begin(g, func() (Advice, error) {
		switch advisor {
		case envv1.Advisor_ADVISOR_EXPERT:
			if expert, is := g.environment.(Expert); is {
				return expert.AdviseExpert(seed), nil
			}
			return Advice{}, lacksCapability(g.spec.Name+" has no expert", "EXPERT")
		case envv1.Advisor_ADVISOR_RANDOM:
			if player, is := g.environment.(RandomPlayer); is {
				return player.AdviseRandom(seed), nil
			}
			return Advice{}, &InvalidOption{
				Message: g.spec.Name + " has no random player", Valid: "ADVISOR_NOOP",
			}
		}
		if player, is := g.environment.(IdlePlayer); is {
			return player.AdviseNoop(), nil
		}
		return Advice{}, nil
	})
}

func (g *game) render() *future[[]View] {
	return begin(g, func() ([]View, error) {
		views := g.environment.(Renderer).Render()
		return views, requireFit(views)
	})
}

func requireFit(views []View) error {
	names, size := map[string]bool{}, 0
	for _, view := range views {
		size += len(view.Content)
		if !viewName.MatchString(view.Name) || names[view.Name] || view.Title == "" {
			return fmt.Errorf("the view %q has no name or title of its own", view.Name)
		}
		if names[view.Name] = true; len(view.Content) > maxViewBytes {
			return fmt.Errorf("the view %s has more than %d bytes", view.Name, maxViewBytes)
		}
	}
	if len(views) < 1 || len(views) > maxViews || size > maxViewsBytes {
		return fmt.Errorf("%d views of together %d bytes", len(views), size)
	}
	return nil
}

// close releases the environment, after what it does now.
func (g *game) close() {
	g.interrupt()
	if closer, is := g.environment.(io.Closer); is {
		begin(g, func() (struct{}, error) { return struct{}{}, closer.Close() })
	}
}

func (g *game) record(observation Observation, parsedAction *string) (result, error) {
	if err := requireSound(observation, g.limits); err != nil {
		return result{}, err
	}
	hash := sha256.New()
	if it, is := g.environment.(Fingerprinter); is {
		hash.Write(it.Fingerprint())
	} else {
		hash.Write(g.last.stateHash)
	}
	shown := []interface{}{
		observation.Text, observation.Reward, observation.Score, observation.Terminated,
		observation.Truncated, observation.StopReason, parsedAction,
	}
	hash.Write([]byte(toJSON(shown)))
	for _, image := range observation.Images {
		digest := sha256.Sum256(image.Content)
		hash.Write(digest[:])
	}
	g.last = result{observation, hash.Sum(nil)[:hashBytes], parsedAction}
	return g.last, nil
}

func requireSound(observation Observation, limits *Limits) error {
	if len(observation.Text) > maxObservationBytes {
		return errors.New("an observation is too long")
	}
	for _, figure := range []*float64{observation.Reward, observation.Score} {
		if figure != nil && (math.IsNaN(*figure) || math.IsInf(*figure, 0)) {
			return errors.New("a figure is not finite")
		}
	}
	ended := observation.Terminated || observation.Truncated
	if ended != (observation.StopReason != envv1.StopReason_STOP_REASON_UNSPECIFIED) {
		return errors.New("an end without a stop reason, or a stop reason without an end")
	}
	return requireImages(observation.Images, limits)
}

func requireImages(images []Image, limits *Limits) error {
	size := 0
	for _, image := range images {
		size += len(image.Content)
		beginning, known := imageBeginnings[image.MediaType]
		if !known || !beginning.matches(image.Content) {
			return fmt.Errorf("an image is no file of the type %q", image.MediaType)
		}
		if len(image.Content) > limits.MaxImageBytes {
			return fmt.Errorf("an image has more than %d bytes", limits.MaxImageBytes)
		}
	}
	if len(images) > limits.MaxImages || size > limits.MaxImagesBytes {
		return fmt.Errorf("%d images of together %d bytes", len(images), size)
	}
	return nil
}
