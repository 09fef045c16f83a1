package server

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	envv1 "agentgym/env/v1"
)

const (
	react    = envv1.ActionFormat_ACTION_FORMAT_REACT
	function = envv1.ActionFormat_ACTION_FORMAT_FUNCTION_CALLING
	code     = envv1.ActionFormat_ACTION_FORMAT_CODE_AS_ACTION
)

func grammar() *Grammar {
	return &Grammar{
		Verbs: []Verb{{
			Name:       "say",
			Parameters: []Parameter{{Name: "text", Type: "string"}, {Name: "n", Type: "integer", Optional: true}},
			Render:     func(given map[string]interface{}) string { return given["text"].(string) },
		}},
		Express: func(action string) (string, map[string]interface{}) {
			return "say", map[string]interface{}{"text": action}
		},
	}
}

func TestRepliesAreRead(t *testing.T) {
	for _, each := range []struct {
		format envv1.ActionFormat
		reply  string
		action string
		read   bool
	}{
		{react, "Action: a\nAction:\n b c \n", "b c", true},
		{react, "I do not know", "", true},
		{function, "Sure: {\"thought\": \"two\nlines\", \"function_name\": \"say\", \"arguments\": {\"text\": \"a\"}}!", "a", true},
		{function, `{"function_name": "say", "arguments": {"text": 1}}`, "", false},
		{function, `{"function_name": "say", "arguments": {}}`, "", false},
		{function, "}{", "", false},
		{code, "```python\n# why\nsay('it\\'s', n=2)\n```", "it's", true},
		{code, "say(text=\"a\" 'b',)  # done", "ab", true},
		{code, "say(f())", "", false},
		{code, "say('a'); say('b')", "", false},
		{code, "say('a', text='b')", "", false},
		{code, "say('a', 1, 2)", "", false},
		{code, "x = 1", "", false},
	} {
		action, read := grammar().read(each.reply, each.format)
		if action != each.action || read != each.read {
			t.Errorf("%q was read as %q, %v", each.reply, action, read)
		}
	}
}

func TestAdviceIsReadAgain(t *testing.T) {
	for _, action := range []string{"plain", "it's \"quoted\" \\ and\nbroken ``` here", "\U0001f600<&\u2028"} {
		for _, format := range []envv1.ActionFormat{function, code} {
			reply := grammar().write(Advice{Action: action, Thought: "x\ny"}, format)
			if again, read := grammar().read(reply, format); again != action || !read {
				t.Errorf("%q was read as %q, %v", reply, again, read)
			}
		}
	}
}

func TestLiteralsAreReadAsPythonReadsThem(t *testing.T) {
	call, err := readPythonCall(`f([1, -2.5, True, None, {'a': (0x10,)}], r'\n', '''a
b''', '\x41\u00e9\101')`)
	if err != nil {
		t.Fatal(err)
	}
	list := []interface{}{1.0, -2.5, true, nil, map[string]interface{}{"a": []interface{}{16.0}}}
	expected := []interface{}{list, `\n`, "a\nb", "A\u00e9A"}
	if !reflect.DeepEqual(call.positional, expected) {
		t.Errorf("%#v", call.positional)
	}
	for _, wrong := range []string{"'a", "1e999", "b'x'", strings.Repeat("[", 200), `'\N{BULLET}'`, `'\ud800'`} {
		if call, err := readPythonCall("f(" + wrong + ")"); err == nil {
			t.Errorf("%s was read as %#v", wrong, call)
		}
	}
}

// counter cannot copy itself, and does what its actions say.
type counter struct{ count int }

func (c *counter) Reset(context.Context, Task, ResetOptions) (Observation, error) {
	return Observation{Text: "0"}, nil
}

func (c *counter) Step(_ context.Context, action string) (Observation, error) {
	unsound := math.NaN()
	switch action {
	case "hang":
		select {}
	case "unsound":
		return Observation{Reward: &unsound}, nil
	case "endless":
		return Observation{Terminated: true}, nil
	}
	c.count++
	return Observation{Text: strings.Repeat("x", c.count)}, nil
}

func answers(t *testing.T, sent ...*envv1.Command) []*envv1.Event {
	limits := DefaultLimits()
	limits.StepLimit = 20 * time.Millisecond
	spec := Spec{
		Name: "counter", Splits: []Split{{"eval", 0, 3}}, Grammar: *grammar(),
		ConversationStarts: []ConversationStart{{Format: react}},
		New:                func() Environment { return &counter{} },
	}
	handler := newCommands(environments{"counter": &spec}, &limits)
	var events []*envv1.Event
	for _, command := range sent {
		s := newSession(anybody, "test", &limits)
		handler.handle(s, command)
		events = append(events, s.next(always)...)
	}
	if len(events) != len(sent) {
		t.Fatalf("%d commands got %d answers", len(sent), len(events))
	}
	return events
}

func reset() *envv1.Command {
	return &envv1.Command{EpisodeId: "e", Body: &envv1.Command_Reset_{Reset_: &envv1.Reset{ItemId: "1"}}}
}

func step(id string, seq uint64, action string) *envv1.Command {
	return &envv1.Command{EpisodeId: id, Seq: seq, Body: &envv1.Command_Action{Action: action}}
}

func TestAForkWithoutForkerPlaysTheJournal(t *testing.T) {
	fork := &envv1.Command{EpisodeId: "f", Seq: 1}
	fork.Body = &envv1.Command_Fork{Fork: &envv1.Fork{FromEpisodeId: "e"}}
	events := answers(t, reset(), step("e", 1, "a"), fork, step("f", 2, "a"))
	if !reflect.DeepEqual(events[2].StateHash, events[1].StateHash) {
		t.Error("the fork is in another state")
	}
	if events[3].GetObservation() != "xx" {
		t.Errorf("%v", events[3])
	}
}

func TestFailuresAreTheEnvironments(t *testing.T) {
	for action, message := range map[string]string{
		"hang": "did not answer in 20ms", "unsound": "not finite", "endless": "without a stop reason",
	} {
		events := answers(t, reset(), step("e", 1, action), step("e", 1, action))
		for _, event := range events[1:] {
			if !strings.Contains(event.GetError().GetMessage(), message) {
				t.Errorf("%s: %v", action, event)
			}
		}
	}
}

func TestPlainTextBeyondThisMachineIsRefused(t *testing.T) {
	if _, err := Start([]Spec{{Name: "x"}}, Options{Address: "0.0.0.0:0"}); err == nil {
		t.Error("it was served")
	}
}
