// Command echo serves the environment of env_servers/environments/echo, observation for observation:
// it repeats what it hears, and misbehaves on request. `echo HOST:PORT [LIMIT=NUMBER...]`
package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	envv1 "agentgym/env/v1"
	"agentgym/server"
)

const (
	alphabet    = "abcdefghijklmnopqrstuvwxyz "
	echoedRunes = 64
	barRunes    = 60
	leastSide   = 8 // pixels of an image
	firstTask   = 1_000_000
	drainFor    = 30 * time.Second
	rules       = "You talk to an echo. After each of your messages it tells you how many messages it has heard " +
		"and repeats the beginning of the last one. Keep talking until it has heard enough; your last " +
		"message must not be empty.\n"
)

var (
	// What can be asked of an episode; 0 switches a behaviour off.
	defaults = map[string]float64{
		"observation_bytes": 600,
		"length":            10, // steps until the episode ends
		"sleep_ms":          0,  // each step waits so long
		"hang_at":           0,  // this step waits for ever
		"crash_at":          0,  // this step panics
		"view_bytes":        0,  // a view has at least so many bytes
		"images":            0,  // every observation has so many images
		"image_bytes":       0,  // each of them has at least so many bytes
	}
	answers atomic.Int64
)

type echo struct {
	behaviour map[string]float64
	diverges  bool
	identity  string
	padding   string
	steps     int
}

func (e *echo) Reset(_ context.Context, task server.Task, options server.ResetOptions) (server.Observation, error) {
	if err := e.read(options.Options); err != nil {
		return server.Observation{}, err
	}
	shift := int((uint64(task.Index) + options.Seed) % uint64(len(alphabet)))
	turned, size := alphabet[shift:]+alphabet[:shift], int(e.behaviour["observation_bytes"])
	e.padding = strings.Repeat(turned, size/len(turned)+1)[:size]
	e.identity = fmt.Sprint(task.ItemID, options.Seed, size, e.behaviour["length"], e.behaviour["sleep_ms"],
		e.behaviour["hang_at"], e.behaviour["crash_at"], e.diverges)
	text := e.padded(fmt.Sprintf("This is %s. Say something. ", task.ItemID))
	return server.Observation{Text: text, Images: e.images()}, nil
}

func (e *echo) read(options map[string]interface{}) error {
	e.behaviour = map[string]float64{}
	for name, value := range defaults {
		e.behaviour[name] = value
	}
	for name, value := range options {
		if name == "diverge" {
			diverges, is := value.(bool)
			if e.diverges = diverges; !is {
				return &server.InvalidOption{Message: "option diverge is no flag", Valid: "true, false"}
			}
			continue
		}
		highest := 1e9
		if name == "images" {
			highest = 20
		} else if strings.HasSuffix(name, "_bytes") {
			highest = 16 << 20
		}
		number, is := value.(float64)
		isWhole := number == float64(int(number)) || name == "sleep_ms"
		if !is || !isWhole || number < 0 || number > highest {
			message := fmt.Sprintf("option %s is %.100v", name, value)
			return &server.InvalidOption{Message: message, Valid: fmt.Sprintf("a number from 0 to %.0f", highest)}
		}
		e.behaviour[name] = number
	}
	return nil
}

func (e *echo) Step(ctx context.Context, action string) (server.Observation, error) {
	e.steps++
	switch float64(e.steps) {
	case e.behaviour["crash_at"]:
		panic(fmt.Sprintf("echo was asked to crash at step %d", e.steps))
	case e.behaviour["hang_at"]:
		select {}
	}
	if wait := e.behaviour["sleep_ms"]; wait > 0 {
		select {
		case <-time.After(time.Duration(wait * float64(time.Millisecond))):
		case <-ctx.Done():
		}
	}
	heard := []rune(action)
	if len(heard) > echoedRunes {
		heard = heard[:echoedRunes]
	}
	text := e.padded(fmt.Sprintf("Step %d, you said: %s. ", e.steps, pythonASCII(heard)))
	shown := server.Observation{Text: text, Images: e.images()}
	if float64(e.steps) != e.behaviour["length"] {
		return shown, nil
	}
	reward := 1.0
	shown.StopReason = envv1.StopReason_STOP_REASON_GOAL_REACHED
	if action == "" {
		reward, shown.StopReason = 0, envv1.StopReason_STOP_REASON_GOAL_FAILED
	}
	shown.Reward, shown.Terminated = &reward, true
	return shown, nil
}

func (e *echo) Fork() server.Environment {
	copied := *e
	return &copied
}

func (e *echo) Fingerprint() []byte { return []byte(fmt.Sprint(e.steps, " ", e.identity)) }

func (e *echo) AdviseExpert(seed uint64) server.Advice {
	thoughts := []string{
		fmt.Sprintf("The echo has heard %d messages so far; I send the next one.", e.steps),
		fmt.Sprintf("After %d messages there is still something to say.", e.steps),
		fmt.Sprintf("Message %d follows.", e.steps+1),
	}
	return server.Advice{Action: fmt.Sprintf("message %d", e.steps+1), Thought: thoughts[seed%3]}
}

func (e *echo) Render() []server.View {
	length := int(e.behaviour["length"])
	left, of := length-e.steps, strconv.Itoa(length)
	if length == 0 {
		of = "any number"
	}
	bar := strings.Repeat("#", least(e.steps)) + strings.Repeat(".", least(left))
	text := fmt.Sprintf("step %d of %s\n%s\n", e.steps, of, bar)
	if missing := int(e.behaviour["view_bytes"]) - len(text); missing > 0 {
		text += strings.Repeat(" ", missing)
	}
	return []server.View{{Name: "steps", Title: "Steps", MediaType: "text/plain", Content: []byte(text)}}
}

// images are squares of a gray for each step and place, not compressed.
func (e *echo) images() []server.Image {
	side := int(math.Ceil(math.Sqrt(e.behaviour["image_bytes"])))
	if side < leastSide {
		side = leastSide
	}
	encoder := png.Encoder{CompressionLevel: png.NoCompression}
	var images []server.Image
	for place := 0; place < int(e.behaviour["images"]); place++ {
		square := image.NewGray(image.Rect(0, 0, side, side))
		for at := range square.Pix {
			square.Pix[at] = uint8(e.steps*16 + place)
		}
		var file bytes.Buffer
		if err := encoder.Encode(&file, square); err != nil {
			panic(err)
		}
		images = append(images, server.Image{MediaType: "image/png", Content: file.Bytes()})
	}
	return images
}

func least(count int) int {
	if count < 0 {
		return 0
	}
	if count > barRunes {
		return barRunes
	}
	return count
}

func (e *echo) padded(head string) string {
	if e.diverges {
		head = fmt.Sprintf("Answer %d of this process. %s", answers.Add(1), head)
	}
	if len(head) >= len(e.padding) {
		return head[:len(e.padding)]
	}
	return head + e.padding[len(head):]
}

// pythonASCII is what Python's ascii makes of a text.
func pythonASCII(text []rune) string {
	quote := '\''
	if strings.ContainsRune(string(text), '\'') && !strings.ContainsRune(string(text), '"') {
		quote = '"'
	}
	named := map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\\': `\\`, quote: `\` + string(quote)}
	var escaped strings.Builder
	for _, each := range text {
		switch short := named[each]; {
		case short != "":
			escaped.WriteString(short)
		case each >= ' ' && each < 0x7f:
			escaped.WriteRune(each)
		case each > 0xffff:
			fmt.Fprintf(&escaped, `\U%08x`, each)
		case each > 0xff:
			fmt.Fprintf(&escaped, `\u%04x`, each)
		default:
			fmt.Fprintf(&escaped, `\x%02x`, each)
		}
	}
	return string(quote) + escaped.String() + string(quote)
}

func spec() server.Spec {
	options := []string{"diverge"}
	for name := range defaults {
		options = append(options, name)
	}
	text := server.Parameter{Name: "text", Type: "string", Description: "What to say."}
	say := server.Verb{
		Name: "say", Description: "Say something to the echo.", Parameters: []server.Parameter{text},
		Render: func(given map[string]interface{}) string { return given["text"].(string) },
	}
	return server.Spec{
		Name: "echo", Version: "1",
		Description: "Repeats what it hears; for benchmarks, conformance and faults on request.",
		Splits: []server.Split{
			{Name: "train", First: firstTask, Size: 10_000},
			{Name: "eval", First: firstTask + 10_000, Size: 1_000},
		},
		Category: func(int) string { return "echo" },
		Grammar: server.Grammar{
			Verbs: []server.Verb{say},
			Express: func(action string) (string, map[string]interface{}) {
				return "say", map[string]interface{}{"text": action}
			},
		},
		ConversationStarts: []server.ConversationStart{
			{
				Format:      envv1.ActionFormat_ACTION_FORMAT_REACT,
				Instruction: rules + "Write your reply as\n\nThought:\nwhy you say it\n\nAction:\nwhat you say",
			},
			{
				Format: envv1.ActionFormat_ACTION_FORMAT_FUNCTION_CALLING,
				Instruction: rules + `Reply with one JSON object: {"thought": why, "function_name": "say", ` +
					`"arguments": {"text": what you say}}`,
			},
			{
				Format: envv1.ActionFormat_ACTION_FORMAT_CODE_AS_ACTION,
				Instruction: rules + `Reply with one python block that calls say(text="what you say"); ` +
					"put your thoughts in its comments.",
			},
		},
		MaxRounds: 20,
		HasImages: true,
		Options:   options,
		New:       func() server.Environment { return &echo{} },
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	limits := server.DefaultLimits()
	options := server.Options{Limits: &limits, Token: os.Getenv("AGENTGYM_TOKEN")}
	for _, each := range arguments {
		name, value, isLimit := strings.Cut(each, "=")
		if !isLimit {
			options.Address = each
			continue
		}
		number, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch name {
		case "maxEpisodes":
			limits.MaxEpisodes = number
		case "maxInFlight":
			limits.MaxInFlight = number
		case "maxTextBytes":
			limits.MaxTextBytes = number
		case "maxJournalBytes":
			limits.MaxJournalBytes = number
		case "idleLimitMs":
			limits.IdleLimit = time.Duration(number) * time.Millisecond
		default:
			return fmt.Errorf("no limit is called %s", name)
		}
	}
	options.Tokens = map[string]server.NamedToken{}
	if token := os.Getenv("AGENTGYM_OTHER_TOKEN"); token != "" {
		options.Tokens["other"] = server.NamedToken{Token: token, Scopes: []string{"play"}}
	}
	if token := os.Getenv("AGENTGYM_OPERATOR_TOKEN"); token != "" {
		options.Tokens["operator"] = server.NamedToken{Token: token, Scopes: []string{"operate"}}
	}
	serving, err := server.Start([]server.Spec{spec()}, options)
	if err != nil {
		return err
	}
	fmt.Printf("echo is served on %s, process %d\n", serving.Address, os.Getpid())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	serving.Drain(drainFor)
	return nil
}
