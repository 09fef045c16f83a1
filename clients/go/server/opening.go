package server

import (
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	envv1 "agentgym/env/v1"
)

var itemID = regexp.MustCompile(`^(?:([A-Za-z0-9_-]+)_)?([0-9]{1,12})$`)

// environments of a server, by name.
type environments map[string]*Spec

// wanted is a reset as it was asked for, checked.
type wanted struct {
	opening
	// key is equal for equal resets.
	key     string
	journal []stepInput
	hashes  [][]byte
	lease   time.Duration
}

// names are sorted.
func (e environments) names() []string {
	var names []string
	for name := range e {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (e environments) find(name string) (*Spec, error) {
	if spec := e[name]; spec != nil {
		return spec, nil
	}
	names := e.names()
	if name == "" && len(names) == 1 {
		return e[names[0]], nil
	}
	valid := strings.Join(names, ", ")
	message := fmt.Sprintf("this server has no environment %q (it has %s)", name, valid)
	return nil, refuse("UNKNOWN_ENVIRONMENT", message, "valid", valid)
}

func (e environments) anyIsDeterministic() bool {
	for _, spec := range e {
		if !spec.NotDeterministic {
			return true
		}
	}
	return false
}

func (e environments) readReset(command *envv1.Command, limits *Limits) (*wanted, error) {
	reset := command.GetReset_()
	spec, err := e.find(reset.Environment)
	if err != nil {
		return nil, err
	}
	w := &wanted{opening: opening{spec: spec, images: reset.Images}, lease: limits.lease(reset.LeaseMs)}
	if err := w.readWishes(reset, limits); err != nil {
		return nil, err
	}
	if w.task, err = findTask(spec, reset.ItemId); err != nil {
		return nil, err
	}
	// Equal resets in everything that counts, whatever their journals.
	w.key = toJSON([]interface{}{
		spec.Name, w.task.ItemID, w.options.Seed, w.options.Profile, w.format, w.options.Options, w.images,
	})
	w.hashes = append(w.hashes, reset.InitialStateHash)
	for _, entry := range reset.Journal {
		w.hashes = append(w.hashes, entry.StateHash)
	}
	w.journal, err = readJournal(command.Seq, reset.Journal, w.opening, limits)
	return w, err
}

func (w *wanted) readWishes(reset *envv1.Reset, limits *Limits) error {
	spec := w.spec
	w.options = ResetOptions{Seed: reset.Seed, Profile: reset.Profile}
	profiles := spec.profiles()
	if w.options.Profile == "" {
		w.options.Profile = profiles[0]
	}
	if !contains(profiles, w.options.Profile) {
		message := fmt.Sprintf("%s has no profile %q", spec.Name, w.options.Profile)
		return refuse("UNKNOWN_OPTION", message, "valid", strings.Join(profiles, ", "))
	}
	if w.format = reset.ActionFormat; w.format == 0 {
		w.format = spec.ConversationStarts[0].Format
	}
	if err := requireFormat(spec, w.format); err != nil {
		return err
	}
	if len(reset.ItemId)+proto.Size(reset.Options) > limits.MaxTextBytes {
		return textTooLong("item id and options", limits.MaxTextBytes)
	}
	if !isJSON(structpb.NewStructValue(reset.Options)) {
		return invalidArgument("options", "options: JSON has no NaN and no infinity")
	}
	w.options.Options = reset.Options.AsMap()
	for name := range w.options.Options {
		if !contains(spec.Options, name) {
			valid := strings.Join(spec.Options, ", ")
			if valid == "" {
				valid = "none"
			}
			message := fmt.Sprintf("%s has no option %q", spec.Name, name)
			return refuse("UNKNOWN_OPTION", message, "valid", valid)
		}
	}
	return nil
}

func readJournal(
	seq uint64, entries []*envv1.JournalEntry, o opening, limits *Limits,
) ([]stepInput, error) {
	switch count := len(entries); {
	case seq != uint64(count):
		message := fmt.Sprintf("a reset opens at seq %d, the number of its journal entries", count)
		return nil, invalidArgument("seq", message)
	case count > maxJournalEntries:
		return nil, invalidArgument("journal", fmt.Sprintf("more than %d entries", maxJournalEntries))
	case count > 0 && o.spec.NotDeterministic:
		return nil, lacksCapability("no journal rebuilds episodes of "+o.spec.Name, "DETERMINISTIC")
	}
	var journal []stepInput
	for at, entry := range entries {
		var kind inputKind
		switch entry.GetInput().GetInput().(type) {
		case *envv1.ActionInput_Action:
			kind = kindAction
		case *envv1.ActionInput_Reply:
			kind = kindReply
		case *envv1.ActionInput_ToolCall:
			kind = kindToolCall
		default:
			return nil, invalidArgument("journal", fmt.Sprintf("journal entry %d has no input", at+1))
		}
		input, err := readInput(entry.Input, kind, o, limits.MaxTextBytes)
		if err != nil {
			return nil, err
		}
		journal = append(journal, input)
	}
	if limits.MaxJournalBytes > 0 && journalBytes(journal) > limits.MaxJournalBytes {
		return nil, textTooLong("the inputs of an episode together", limits.MaxJournalBytes)
	}
	return journal, nil
}

func findTask(spec *Spec, id string) (Task, error) {
	var valid []string
	found := itemID.FindStringSubmatch(id)
	for _, split := range spec.Splits {
		if found != nil && (found[1] == "" || found[1] == spec.Name) {
			index, err := strconv.Atoi(found[2])
			if err == nil && index >= split.First && index < split.First+split.Size {
				return spec.task(index), nil
			}
		}
		last := split.First + split.Size - 1
		valid = append(valid, fmt.Sprintf("%s_%d to %s_%d", spec.Name, split.First, spec.Name, last))
	}
	message := fmt.Sprintf("unknown item %.100q", id)
	return Task{}, refuse("UNKNOWN_ITEM", message, "valid", strings.Join(valid, ", "))
}

func (s *Spec) task(index int) Task {
	return Task{ItemID: fmt.Sprintf("%s_%d", s.Name, index), Index: index}
}

func (l *Limits) lease(ms uint32) time.Duration {
	lease := time.Duration(ms) * time.Millisecond
	if lease == 0 {
		lease = l.DefaultLease
	}
	if lease > l.MaxLease {
		lease = l.MaxLease
	}
	return lease
}

func isJSON(value *structpb.Value) bool {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return !math.IsNaN(kind.NumberValue) && !math.IsInf(kind.NumberValue, 0)
	case *structpb.Value_StructValue:
		for _, field := range kind.StructValue.GetFields() {
			if !isJSON(field) {
				return false
			}
		}
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			if !isJSON(item) {
				return false
			}
		}
	}
	return true
}

func contains(texts []string, text string) bool {
	for _, each := range texts {
		if each == text {
			return true
		}
	}
	return false
}
