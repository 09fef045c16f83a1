package server

import "time"

// Limits bound a server; docs/protocol.md says what each means, GetEnvironment tells them.
type Limits struct {
	MaxTextBytes    int
	MaxMessageBytes int
	// MaxEpisodes are those of all environments together.
	MaxEpisodes int
	// MaxEpisodesPerClient is 0 where there is none; clients share fairly in any case.
	MaxEpisodesPerClient int
	MaxInFlight          int
	DefaultLease         time.Duration
	MaxLease             time.Duration
	StepLimit            time.Duration
	ResponseCacheEvents  int
	MaxItemsPerMessage   int
	MaxJournalBytes      int
	// IdleLimit is 0 where unused episodes never end.
	IdleLimit time.Duration
	// Of one observation.
	MaxImages      int
	MaxImageBytes  int
	MaxImagesBytes int
}

// DefaultLimits are those of a server that was told none.
func DefaultLimits() Limits {
	return Limits{
		MaxTextBytes:        1 << 20,
		MaxMessageBytes:     16 << 20,
		MaxEpisodes:         16384,
		MaxInFlight:         4096,
		DefaultLease:        time.Minute,
		MaxLease:            time.Hour,
		StepLimit:           time.Minute,
		ResponseCacheEvents: 8,
		MaxItemsPerMessage:  128,
		MaxJournalBytes:     4 << 20,
		IdleLimit:           time.Hour,
		MaxImages:           16,
		MaxImageBytes:       4 << 20,
		MaxImagesBytes:      8 << 20,
	}
}

const (
	contractRevision    = 1
	maxIDBytes          = 128
	maxJournalEntries   = 100_000
	maxObservationBytes = 32 << 20
	maxViews            = 16
	maxViewBytes        = 4 << 20
	maxViewsBytes       = 8 << 20
)
