package server

import (
	"bytes"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	envv1 "agentgym/env/v1"
)

const (
	// Ends by the server that are remembered, to say why.
	maxEnded    = 10_000
	creditRetry = 100 * time.Millisecond
)

// commands answers every command with exactly one event.
type commands struct {
	environments environments
	limits       *Limits

	mu        sync.Mutex
	admission admission
	episodes  map[string]*episode
	opening   map[string]*pendingOpen
	ended     map[[2]string]string // client and id: why the server ended it
}

// pendingOpen is an episode that is being opened.
type pendingOpen struct {
	client *client
	// key of its command: an equal one joins it.
	key    string
	flight *flight[*episode]
	closed bool
}

// plan is an opening to be carried out.
type plan struct {
	opening
	resetKey  string
	originKey string
	// key of the command as a whole, journal included.
	key     string
	journal []stepInput
	lease   time.Duration
	// begin is called with the lock held, what it returns without.
	begin func() func() (started, error)
}

type started struct {
	game    *game
	results []result // of the last seqs
	hashes  [][]byte // by seq, from 0 on
}

// later waits for an answer that takes time; called without the lock.
type later func() (*envv1.Event, error)

func newCommands(hosted environments, limits *Limits) *commands {
	return &commands{
		environments: hosted,
		limits:       limits,
		admission:    admission{limits: limits, accounts: map[string]*account{}},
		episodes:     map[string]*episode{},
		opening:      map[string]*pendingOpen{},
		ended:        map[[2]string]string{},
	}
}

// handle answers a command, now or later.
func (c *commands) handle(s *session, command *envv1.Command) {
	answer := func(event *envv1.Event, err error) *envv1.Event {
		if err != nil {
			status := toCommandError(err).status()
			event = &envv1.Event{Body: &envv1.Event_Error{Error: status}}
		}
		event.EpisodeId, event.Seq = command.EpisodeId, command.Seq
		return event
	}
	c.mu.Lock()
	event, wait, err := c.dispatch(s, command)
	if wait == nil {
		c.mu.Unlock()
		s.answer(answer(event, err))
		return
	}
	s.inFlight++
	c.mu.Unlock()
	s.promise()
	go func() {
		event, err := wait()
		c.mu.Lock()
		s.inFlight--
		c.mu.Unlock()
		s.keep(answer(event, err))
	}()
}

func (c *commands) dispatch(s *session, command *envv1.Command) (*envv1.Event, later, error) {
	switch body := command.Body.(type) {
	case *envv1.Command_Close:
		return c.close(s, command), nil, nil
	case *envv1.Command_Cancel:
		event, err := c.cancel(s, command)
		return event, nil, err
	case *envv1.Command_Attach:
		event, err := c.attach(s, command.EpisodeId, body.Attach.LastSeqSeen)
		return event, nil, err
	case *envv1.Command_Heartbeat:
		e, err := c.findFor(s, command.EpisodeId)
		if err != nil {
			return nil, nil, err
		}
		extended := &envv1.LeaseExtended{LeaseMs: milliseconds(e.lease)}
		return &envv1.Event{Body: &envv1.Event_LeaseExtended{LeaseExtended: extended}}, nil, nil
	case nil:
		message := "the command has no body that is known here"
		return nil, nil, refuse("UNSUPPORTED_VERB", message)
	}
	if s.inFlight >= c.limits.MaxInFlight {
		message := fmt.Sprintf("more than %d commands are in flight", c.limits.MaxInFlight)
		return nil, nil, refuse("CREDITS_EXCEEDED", message).after(creditRetry)
	}
	switch body := command.Body.(type) {
	case *envv1.Command_Reset_:
		return c.reset(s, command)
	case *envv1.Command_Fork:
		return c.fork(s, command)
	case *envv1.Command_Consult:
		wait, err := c.consult(s, command, body.Consult)
		return nil, wait, err
	case *envv1.Command_Action:
		return c.step(s, command, kindAction)
	case *envv1.Command_Reply:
		return c.step(s, command, kindReply)
	default:
		return c.step(s, command, kindToolCall)
	}
}

// ------------------------------------------------------------------ verbs of live episodes

func (c *commands) step(s *session, command *envv1.Command, kind inputKind) (*envv1.Event, later, error) {
	e, err := c.findFor(s, command.EpisodeId)
	if err != nil {
		return nil, nil, err
	}
	input, err := readInput(command, kind, e.opening, c.limits.MaxTextBytes)
	if err != nil {
		return nil, nil, err
	}
	decided, err := e.decide(command.Seq, input)
	if err != nil {
		return nil, nil, err
	}
	switch decided {
	case replay:
		event, err := kept(e, int(command.Seq))
		return event, nil, err
	case execute:
		c.execute(e, input)
	}
	wait := e.inFlight.join(e.id, command.DeadlineMs)
	return nil, func() (*envv1.Event, error) { return observed(e, false)(wait()) }, nil
}

func (c *commands) execute(e *episode, input stepInput) {
	e.inFlight, e.executing = newFlight[result](e.seq()+1), input
	stepping, flight := e.game.step(input), e.inFlight
	go func() {
		reached, err := stepping.wait()
		c.mu.Lock()
		if err == nil {
			e.commit(input, reached)
		} else {
			e.failure = toCommandError(err)
		}
		e.inFlight, e.lastUsed = nil, time.Now()
		flight.land(reached, e.failureOf(err))
		c.mu.Unlock()
	}()
}

func (e *episode) failureOf(err error) error {
	if err == nil {
		return nil
	}
	return e.failure
}

func (c *commands) consult(
	s *session, command *envv1.Command, asked *envv1.Consult,
) (later, error) {
	e, err := c.findFor(s, command.EpisodeId)
	switch {
	case err != nil:
		return nil, err
	case e.inFlight != nil:
		return nil, episodeBusy(e.id, e.inFlight.seq)
	case command.Seq != uint64(e.seq()):
		return nil, seqGap(e.id, e.seq(), fmt.Sprintf("advice is for seq %d", e.seq()))
	case e.failure != nil:
		return nil, e.failure
	case asked.Advisor < 1 || int(asked.Advisor) >= len(envv1.Advisor_name):
		return nil, invalidArgument("advisor", "an advisor must be named")
	}
	asking := e.game.advise(asked.Advisor, asked.Seed)
	grammar, format := &e.opening.spec.Grammar, e.opening.format
	return func() (*envv1.Event, error) {
		advice, err := asking.wait()
		if err != nil {
			return nil, err
		}
		reply, err := guarded(func() (string, error) { return grammar.write(advice, format), nil })
		told := &envv1.Advice{Action: advice.Action, Thought: advice.Thought, Reply: reply}
		return &envv1.Event{Body: &envv1.Event_Advice{Advice: told}}, err
	}, nil
}

func (c *commands) attach(s *session, episodeID string, lastSeen int64) (*envv1.Event, error) {
	e, err := c.findFor(s, episodeID)
	if err != nil {
		return nil, err
	}
	if lastSeen > int64(e.seq()) {
		return nil, seqGap(e.id, e.seq(), fmt.Sprintf("seq %d cannot have been seen", lastSeen))
	}
	if lastSeen < -1 {
		lastSeen = -1
	}
	var missed []*envv1.Event
	for seq := int(lastSeen) + 1; seq <= e.seq(); seq++ {
		event, err := kept(e, seq)
		if err != nil {
			return nil, err
		}
		event.EpisodeId, event.Seq = e.id, uint64(seq)
		missed = append(missed, event)
	}
	for _, event := range missed {
		s.answer(event)
	}
	attached := &envv1.Attached{
		CurrentSeq: uint64(e.seq()), InFlight: e.inFlight != nil, LeaseMs: milliseconds(e.lease),
	}
	return &envv1.Event{Body: &envv1.Event_Attached{Attached: attached}}, nil
}

func (c *commands) cancel(s *session, command *envv1.Command) (*envv1.Event, error) {
	found := false
	if pending := c.ownOpening(command.EpisodeId, s.client); pending != nil {
		if found = uint64(pending.flight.seq) == command.Seq; found {
			pending.flight.giveUp()
		}
	} else {
		e, err := c.findFor(s, command.EpisodeId)
		if err != nil {
			return nil, err
		}
		if found = e.inFlight != nil && uint64(e.inFlight.seq) == command.Seq; found {
			e.inFlight.giveUp()
			e.game.interrupt()
		}
	}
	return &envv1.Event{Body: &envv1.Event_Cancelled{Cancelled: &envv1.Cancelled{Found: found}}}, nil
}

func (c *commands) close(s *session, command *envv1.Command) *envv1.Event {
	e, pending := c.own(command.EpisodeId, s.client), c.ownOpening(command.EpisodeId, s.client)
	if e != nil {
		c.discard(e)
	} else if pending != nil {
		pending.closed = true
		pending.flight.giveUp()
	}
	closed := &envv1.Closed{Found: e != nil || pending != nil}
	return &envv1.Event{Body: &envv1.Event_Closed{Closed: closed}}
}

// render gives pictures of an episode's state, after a step that is under way.
func (c *commands) render(episodeID string, caller *client) (*envv1.RenderResponse, error) {
	c.mu.Lock()
	e, err := c.find(episodeID, caller)
	for err == nil && e.inFlight != nil {
		flight := e.inFlight
		c.mu.Unlock()
		<-flight.done
		c.mu.Lock()
		e, err = c.find(episodeID, caller)
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	e.lastUsed = time.Now()
	if _, draws := e.game.environment.(Renderer); !draws {
		err = lacksCapability(e.opening.spec.Name+" draws no pictures", "RENDER")
	} else {
		err = e.failure
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	drawing := e.game.render()
	drawn := &envv1.RenderResponse{Seq: uint64(e.seq()), StateHash: e.hashes[e.seq()]}
	c.mu.Unlock()
	views, err := drawing.wait()
	for _, it := range views {
		view := envv1.View{Name: it.Name, Title: it.Title, MediaType: it.MediaType, Content: it.Content}
		drawn.Views = append(drawn.Views, &view)
	}
	return drawn, err
}

// ------------------------------------------------------------------ opening

func (c *commands) reset(s *session, command *envv1.Command) (*envv1.Event, later, error) {
	w, err := c.environments.readReset(command, c.limits)
	if err != nil {
		return nil, nil, err
	}
	existing := c.own(command.EpisodeId, s.client)
	switch {
	case existing == nil:
	case existing.isStale(w):
		c.discard(existing) // its client went on elsewhere and comes back with a longer journal
	case existing.originKey == w.key, len(w.journal) > 0 && existing.resetKey == w.key:
		event, err := reopened(s, existing, w.journal, w.hashes)
		return event, nil, err
	}
	key := fmt.Sprintf("%s %d %v", w.key, len(w.journal), w.journal)
	return c.open(s, command, plan{
		opening: w.opening, resetKey: w.key, originKey: w.key, key: key, journal: w.journal,
		lease: w.lease,
		begin: func() func() (started, error) {
			return func() (started, error) { return c.play(w.opening, w.journal, w.hashes) }
		},
	})
}

func (c *commands) fork(s *session, command *envv1.Command) (*envv1.Event, later, error) {
	from, seq := command.GetFork().FromEpisodeId, command.Seq
	key := "fork " + strconv.Quote(from) + strconv.FormatUint(seq, 10)
	existing := c.own(command.EpisodeId, s.client)
	if existing != nil && existing.originKey == key {
		event, err := reopened(s, existing, existing.journal[:seq], nil)
		return event, nil, err
	}
	if pending := c.ownOpening(command.EpisodeId, s.client); pending != nil && pending.key == key {
		return nil, c.opened(s, pending, command), nil
	}
	source, err := c.find(from, s.client)
	switch {
	case err != nil:
		return nil, nil, err
	case source.inFlight != nil:
		return nil, nil, episodeBusy(from, source.inFlight.seq)
	case seq > uint64(source.seq()):
		return nil, nil, seqGap(from, source.seq(), fmt.Sprintf("it cannot be forked at %d", seq))
	case seq == uint64(source.seq()) && source.failure != nil:
		return nil, nil, source.failure
	}
	_, copies := source.game.environment.(Forker)
	if source.opening.spec.NotDeterministic && (!copies || seq < uint64(source.seq())) {
		message := fmt.Sprintf("it forks only at its current state, seq %d", source.seq())
		return nil, nil, lacksCapability(message, "DETERMINISTIC")
	}
	return c.open(s, command, plan{
		opening: source.opening, resetKey: source.resetKey, originKey: key, key: key,
		journal: source.journal[:seq:seq], lease: c.limits.lease(command.GetFork().LeaseMs),
		begin: func() func() (started, error) { return c.beginFork(source, int(seq)) },
	})
}

// beginFork copies the present state, or plays the journal again.
func (c *commands) beginFork(source *episode, seq int) func() (started, error) {
	journal, hashes := source.journal[:seq:seq], source.hashes[:seq+1:seq+1]
	if seq == source.seq() {
		if copying := source.game.fork(); copying != nil {
			last := source.results[len(source.results)-1]
			return func() (started, error) {
				copied, err := copying.wait()
				return started{copied, []result{last}, hashes}, err
			}
		}
	}
	return func() (started, error) { return c.play(source.opening, journal, hashes) }
}

func (c *commands) play(o opening, journal []stepInput, hashes [][]byte) (started, error) {
	game, results, err := openGame(o, journal, hashes, c.limits)
	begun := started{game: game, results: results}
	for _, each := range results {
		begun.hashes = append(begun.hashes, each.stateHash)
	}
	return begun, err
}

func (c *commands) open(s *session, command *envv1.Command, p plan) (*envv1.Event, later, error) {
	id := command.EpisodeId
	if len(id) < 1 || len(id) > maxIDBytes {
		message := fmt.Sprintf("episode_id has 1 to %d bytes", maxIDBytes)
		return nil, nil, invalidArgument("episode_id", message)
	}
	if pending := c.opening[id]; pending != nil {
		if pending.client.name != s.client.name || pending.key != p.key {
			return nil, nil, beingOpened(id)
		}
		return nil, c.opened(s, pending, command), nil
	}
	if c.episodes[id] != nil {
		return nil, nil, seqConflict(id, "is live and was opened otherwise")
	}
	account, err := c.admission.admit(s.account, time.Now())
	if err != nil {
		return nil, nil, err
	}
	pending := &pendingOpen{s.client, p.key, newFlight[*episode](len(p.journal)), false}
	c.opening[id] = pending
	start := p.begin()
	go c.install(id, pending, p, start, account)
	return nil, c.opened(s, pending, command), nil
}

func (c *commands) install(
	id string, pending *pendingOpen, p plan, start func() (started, error), account *account,
) {
	begun, err := start()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.opening, id)
	if err == nil && pending.closed {
		begun.game.close()
		err = gaveUp("CANCELLED", id)
	}
	if err != nil {
		c.admission.release(account)
		pending.flight.land(nil, toCommandError(err))
		return
	}
	e := &episode{
		id: id, client: pending.client, opening: p.opening, resetKey: p.resetKey,
		originKey: p.originKey, lease: p.lease, game: begun.game, account: account,
		limits: c.limits, lastUsed: time.Now(),
		journal: append([]stepInput(nil), p.journal...), hashes: begun.hashes,
		journalBytes: journalBytes(p.journal),
	}
	for _, each := range begun.results {
		e.keep(each)
	}
	c.episodes[id] = e
	delete(c.ended, [2]string{pending.client.name, id})
	pending.flight.land(e, nil)
}

func (c *commands) opened(s *session, pending *pendingOpen, command *envv1.Command) later {
	wait, seq := pending.flight.join(command.EpisodeId, command.DeadlineMs), pending.flight.seq
	return func() (*envv1.Event, error) {
		e, err := wait()
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.episodes[e.id] == e {
			e.attach(s)
		}
		return observed(e, false)(e.result(seq))
	}
}

// isStale says that the journal continues what is known here of the episode.
func (e *episode) isStale(w *wanted) bool {
	return e.resetKey == w.key && e.inFlight == nil && len(e.journal) < len(w.journal) &&
		startsWith(w.journal, e.journal)
}

// reopened answers the same opening again, unless the journals contradict each other.
func reopened(
	s *session, e *episode, journal []stepInput, hashes [][]byte,
) (*envv1.Event, error) {
	e.attach(s)
	if !startsWith(e.journal, journal) {
		return nil, seqConflict(e.id, "is live with another journal")
	}
	for seq, hash := range hashes {
		if seq < len(e.hashes) && len(hash) > 0 && !bytes.Equal(hash, e.hashes[seq]) {
			return nil, diverged(fmt.Sprintf("%s is live with another state at %d", e.id, seq), seq)
		}
	}
	return kept(e, len(journal))
}

// ------------------------------------------------------------------ whose, and whether

func (c *commands) own(episodeID string, caller *client) *episode {
	if e := c.episodes[episodeID]; e != nil && e.client.name == caller.name {
		return e
	}
	return nil
}

func (c *commands) ownOpening(episodeID string, caller *client) *pendingOpen {
	if pending := c.opening[episodeID]; pending != nil && pending.client.name == caller.name {
		return pending
	}
	return nil
}

// findFor finds an episode for a stream, which holds it from now on.
func (c *commands) findFor(s *session, episodeID string) (*episode, error) {
	e, err := c.find(episodeID, s.client)
	if err == nil {
		e.attach(s)
	}
	return e, err
}

func (c *commands) find(episodeID string, caller *client) (*episode, error) {
	if e := c.own(episodeID, caller); e != nil {
		return e, nil
	}
	if c.ownOpening(episodeID, caller) != nil {
		return nil, beingOpened(episodeID)
	}
	replayable := strconv.FormatBool(c.environments.anyIsDeterministic())
	metadata := []string{"journal_replayable", replayable}
	if cause := c.ended[[2]string{caller.name, episodeID}]; cause != "" {
		metadata = append(metadata, "cause", cause)
	}
	message := fmt.Sprintf("no live episode %.128q here", episodeID)
	return nil, refuse("EPISODE_NOT_FOUND", message, metadata...)
}

func (c *commands) discard(e *episode) {
	delete(c.episodes, e.id)
	e.detach(e.lastUsed)
	c.admission.release(e.account)
	if e.inFlight != nil {
		e.inFlight.giveUp()
	}
	e.game.close()
}

// detach lets the leases of a stream's episodes run: it is gone.
func (c *commands) detach(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.detached = true
	for e := range s.episodes {
		e.detach(time.Now())
	}
	s.close()
}

// reap ends the episodes whose time is up.
func (c *commands) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, e := range c.episodes {
		cause := e.expired(now)
		if cause == "" {
			continue
		}
		log.Printf("episode %s ended: %s", e.id, cause)
		c.discard(e)
		if len(c.ended) >= maxEnded {
			c.ended = map[[2]string]string{}
		}
		c.ended[[2]string{e.client.name, e.id}] = cause
	}
}

// busy says whether a stream still drives an episode, or one is being opened.
func (c *commands) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.episodes {
		if !e.ended && e.session != nil {
			return true
		}
	}
	return len(c.opening) > 0
}

func kept(e *episode, seq int) (*envv1.Event, error) { return observed(e, true)(e.result(seq)) }

func observed(e *episode, replayed bool) func(result, error) (*envv1.Event, error) {
	return func(reached result, err error) (*envv1.Event, error) {
		if err != nil {
			return nil, err
		}
		it := reached.observation
		event := &envv1.Event{
			Body:     &envv1.Event_Observation{Observation: it.Text},
			Replayed: replayed, StateHash: reached.stateHash, Reward: it.Reward, Score: it.Score,
			Terminated: it.Terminated, Truncated: it.Truncated, StopReason: it.StopReason,
			ParsedAction: reached.parsedAction,
		}
		for _, image := range it.Images {
			if e.opening.images {
				sent := &envv1.Image{MediaType: image.MediaType, Content: image.Content}
				event.Images = append(event.Images, sent)
			}
		}
		if it.Info != nil {
			event.Info, err = structpb.NewStruct(it.Info)
		}
		return event, err
	}
}

func milliseconds(duration time.Duration) uint32 { return uint32(duration.Milliseconds()) }
