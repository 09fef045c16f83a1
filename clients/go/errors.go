package agentgym

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"

	envv1 "agentgym/env/v1"
)

const domain = "agentgym.env"

// ErrConnectionLost says that no AgentGym server answers at the address, or that streams break again
// and again. Use errors.Is.
var ErrConnectionLost = errors.New("connection lost")

// Error says that a server refused a command; docs/protocol.md says for each reason what to do.
type Error struct {
	// ERROR_REASON_UNSPECIFIED where the answer does not come from an AgentGym server.
	Reason envv1.ErrorReason
	// Who is to blame.
	Fault envv1.Fault
	// Whether the same command, sent again, can succeed.
	Retriable bool
	// What the reason's row in docs/protocol.md lists.
	Metadata map[string]string
	// How long the server asks to wait before that; 0 = it does not say.
	RetryAfter time.Duration
	Message    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Reason, e.Message)
}

// fromStatus returns the error that an event carries.
func fromStatus(carried *rpcstatus.Status) *Error {
	refused := &Error{Message: carried.GetMessage()}
	for _, detail := range status.FromProto(carried).Details() {
		switch it := detail.(type) {
		case *errdetails.ErrorInfo:
			if it.GetDomain() == domain {
				refused.Metadata = it.GetMetadata()
				refused.Reason = envv1.ErrorReason(envv1.ErrorReason_value["ERROR_REASON_"+it.GetReason()])
				refused.Fault = envv1.Fault(envv1.Fault_value["FAULT_"+refused.Metadata["fault"]])
				refused.Retriable = refused.Metadata["retriable"] == "true"
			}
		case *errdetails.RetryInfo:
			delay := it.GetRetryDelay()
			refused.RetryAfter = time.Duration(delay.GetSeconds())*time.Second +
				time.Duration(delay.GetNanos())
		}
	}
	return refused
}

// fromCall returns the error of a call: an *Error where an AgentGym server gave it.
func fromCall(err error) error {
	if err == nil {
		return nil
	}
	refused := fromStatus(status.Convert(err).Proto())
	if refused.Reason == envv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		return fmt.Errorf("%w: %v", ErrConnectionLost, err)
	}
	return refused
}
