package server

import (
	"fmt"
	"strings"

	envv1 "agentgym/env/v1"
)

type inputKind int

const (
	kindAction inputKind = iota
	kindReply
	kindToolCall
)

// What an entry of a journal takes beside its text.
const entryBytes = 96

// stepInput is a step's input as journals keep it; equal ones are ==.
type stepInput struct {
	kind inputKind
	text string
	// name of a tool call.
	name string
	// format of a reply.
	format envv1.ActionFormat
}

func (i stepInput) bytes() int { return len(i.text) + len(i.name) + entryBytes }

// source is what commands and journal entries have in common.
type source interface {
	GetAction() string
	GetReply() string
	GetToolCall() *envv1.ToolCall
	GetActionFormat() envv1.ActionFormat
}

// readInput checks an input of a kind.
func readInput(from source, kind inputKind, o opening, maxBytes int) (stepInput, error) {
	input := stepInput{kind: kind}
	switch kind {
	case kindAction:
		input.text = from.GetAction()
	case kindReply:
		input.text, input.format = from.GetReply(), from.GetActionFormat()
		if input.format == 0 {
			input.format = o.format
		}
		if err := requireFormat(o.spec, input.format); err != nil {
			return input, err
		}
	case kindToolCall:
		input.name, input.text = from.GetToolCall().GetName(), from.GetToolCall().GetArgumentsJson()
	}
	if len(input.text) > maxBytes || len(input.name) > maxBytes {
		return input, textTooLong("a text", maxBytes)
	}
	return input, nil
}

func requireFormat(spec *Spec, format envv1.ActionFormat) error {
	var spoken []string
	for _, start := range spec.ConversationStarts {
		if start.Format == format {
			return nil
		}
		spoken = append(spoken, strings.TrimPrefix(start.Format.String(), "ACTION_FORMAT_"))
	}
	valid := strings.Join(spoken, ", ")
	message := fmt.Sprintf("%s does not speak action format %d (it speaks %s)", spec.Name, format, valid)
	return refuse("UNSUPPORTED_ACTION_FORMAT", message, "valid", valid)
}

func journalBytes(journal []stepInput) int {
	size := 0
	for _, input := range journal {
		size += input.bytes()
	}
	return size
}

// startsWith says whether a journal begins with another one.
func startsWith(journal, beginning []stepInput) bool {
	if len(journal) < len(beginning) {
		return false
	}
	for at, input := range beginning {
		if journal[at] != input {
			return false
		}
	}
	return true
}
