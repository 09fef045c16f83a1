package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	domain = "agentgym.env"
	// Of a message or metadata value: errors quote what clients sent.
	maxErrorBytes = 2000
)

type rule struct {
	code      codes.Code
	fault     string
	retriable bool
}

// What docs/protocol.md's table says of each reason.
var rules = map[string]rule{
	"SEQ_GAP":                       {codes.FailedPrecondition, "AGENT", false},
	"SEQ_CONFLICT":                  {codes.Aborted, "AGENT", false},
	"EPISODE_BUSY":                  {codes.FailedPrecondition, "AGENT", true},
	"EPISODE_NOT_FOUND":             {codes.NotFound, "INFRASTRUCTURE", false},
	"EPISODE_ENDED":                 {codes.FailedPrecondition, "AGENT", false},
	"RESPONSE_EVICTED":              {codes.OutOfRange, "AGENT", false},
	"UNKNOWN_ENVIRONMENT":           {codes.NotFound, "AGENT", false},
	"UNKNOWN_ITEM":                  {codes.NotFound, "AGENT", false},
	"UNKNOWN_SPLIT":                 {codes.NotFound, "AGENT", false},
	"UNKNOWN_OPTION":                {codes.InvalidArgument, "AGENT", false},
	"UNSUPPORTED_ACTION_FORMAT":     {codes.InvalidArgument, "AGENT", false},
	"UNSUPPORTED_CAPABILITY":        {codes.Unimplemented, "AGENT", false},
	"UNSUPPORTED_VERB":              {codes.Unimplemented, "AGENT", false},
	"CONTRACT_REVISION_UNSUPPORTED": {codes.Unimplemented, "AGENT", false},
	"INVALID_ARGUMENT":              {codes.InvalidArgument, "AGENT", false},
	"TEXT_TOO_LONG":                 {codes.InvalidArgument, "AGENT", false},
	"CAPACITY_EXHAUSTED":            {codes.ResourceExhausted, "INFRASTRUCTURE", true},
	"CLIENT_LIMIT":                  {codes.ResourceExhausted, "AGENT", true},
	"CREDITS_EXCEEDED":              {codes.ResourceExhausted, "AGENT", true},
	"DEADLINE_EXCEEDED":             {codes.DeadlineExceeded, "INFRASTRUCTURE", true},
	"CANCELLED":                     {codes.Canceled, "AGENT", true},
	"ENVIRONMENT_CRASHED":           {codes.Internal, "ENVIRONMENT", false},
	"ENVIRONMENT_HUNG":              {codes.Internal, "ENVIRONMENT", false},
	"REPLAY_DIVERGED":               {codes.DataLoss, "ENVIRONMENT", false},
	"DRAINING":                      {codes.Unavailable, "INFRASTRUCTURE", true},
	"UNAUTHENTICATED":               {codes.Unauthenticated, "AGENT", false},
}

// commandError is what a command is answered with instead; it concerns that command alone.
type commandError struct {
	reason     string
	message    string
	metadata   map[string]string
	retryAfter time.Duration
}

func (e *commandError) Error() string { return e.reason + ": " + e.message }

// refuse makes an error; metadata are keys and values.
func refuse(reason, message string, metadata ...string) *commandError {
	kept := map[string]string{}
	for at := 0; at+1 < len(metadata); at += 2 {
		kept[metadata[at]] = bounded(metadata[at+1])
	}
	return &commandError{reason: reason, message: bounded(message), metadata: kept}
}

func (e *commandError) after(delay time.Duration) *commandError {
	e.retryAfter = delay
	return e
}

func (e *commandError) status() *rpcstatus.Status {
	rule := rules[e.reason]
	metadata := map[string]string{
		"fault": rule.fault, "retriable": strconv.FormatBool(rule.retriable),
	}
	for key, value := range e.metadata {
		metadata[key] = value
	}
	info := &errdetails.ErrorInfo{Reason: e.reason, Domain: domain, Metadata: metadata}
	carried, err := status.New(rule.code, e.message).WithDetails(info)
	if err == nil && e.retryAfter > 0 {
		delay := durationpb.New(e.retryAfter)
		carried, err = carried.WithDetails(&errdetails.RetryInfo{RetryDelay: delay})
	}
	if err != nil {
		panic(err) // made here of checked text
	}
	return carried.Proto()
}

// toCommandError returns the error to answer with; what an environment returns is its crash.
func toCommandError(err error) *commandError {
	var refused *commandError
	if errors.As(err, &refused) {
		return refused
	}
	var option *InvalidOption
	if errors.As(err, &option) {
		return refuse("UNKNOWN_OPTION", option.Message, "valid", option.Valid)
	}
	return refuse("ENVIRONMENT_CRASHED", fmt.Sprintf("the environment failed: %v", err))
}

func bounded(text string) string {
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func seqGap(episodeID string, expected int, detail string) *commandError {
	message := fmt.Sprintf("episode %s: %s", episodeID, detail)
	return refuse("SEQ_GAP", message, "expected", strconv.Itoa(expected))
}

func seqConflict(episodeID, detail string) *commandError {
	return refuse("SEQ_CONFLICT", fmt.Sprintf("episode %s %s", episodeID, detail))
}

func episodeBusy(episodeID string, inFlight int) *commandError {
	message := fmt.Sprintf("episode %s executes seq %d", episodeID, inFlight)
	return refuse("EPISODE_BUSY", message, "in_flight", strconv.Itoa(inFlight))
}

func beingOpened(episodeID string) *commandError {
	return refuse("EPISODE_BUSY", fmt.Sprintf("episode %s is being opened", episodeID))
}

func invalidArgument(field, message string) *commandError {
	return refuse("INVALID_ARGUMENT", message, "field", field)
}

func textTooLong(what string, limit int) *commandError {
	message := fmt.Sprintf("%s may have %d bytes", what, limit)
	return refuse("TEXT_TOO_LONG", message, "limit", strconv.Itoa(limit))
}

func lacksCapability(message, capability string) *commandError {
	return refuse("UNSUPPORTED_CAPABILITY", message, "capability", capability)
}

func diverged(message string, atSeq int) *commandError {
	return refuse("REPLAY_DIVERGED", message, "at_seq", strconv.Itoa(atSeq))
}

// gaveUp says CANCELLED or DEADLINE_EXCEEDED of a command that goes on.
func gaveUp(reason, episodeID string) *commandError {
	message := fmt.Sprintf("a command of episode %s goes on: sent again, it gets its result", episodeID)
	return refuse(reason, message, "may_have_been_applied", "true")
}
