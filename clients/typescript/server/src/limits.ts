// Bounds of a server; docs/protocol.md says what each means, GetEnvironment tells them.

export interface Limits {
  maxTextBytes: number;
  maxMessageBytes: number;
  /** Of all environments together. */
  maxEpisodes: number;
  /** 0 = no limit of its own; clients share fairly in any case. */
  maxEpisodesPerClient: number;
  maxInFlight: number;
  defaultLeaseMs: number;
  maxLeaseMs: number;
  stepLimitMs: number;
  responseCacheEvents: number;
  maxItemsPerMessage: number;
  maxJournalBytes: number;
  /** 0 = never. */
  idleLimitMs: number;
  /** Of one observation. */
  maxImages: number;
  maxImageBytes: number;
  maxImagesBytes: number;
}

export const DEFAULT_LIMITS: Readonly<Limits> = {
  maxTextBytes: 1024 * 1024,
  maxMessageBytes: 16 * 1024 * 1024,
  maxEpisodes: 4096,
  maxEpisodesPerClient: 0,
  maxInFlight: 4096,
  defaultLeaseMs: 60_000,
  maxLeaseMs: 3_600_000,
  stepLimitMs: 60_000,
  responseCacheEvents: 8,
  maxItemsPerMessage: 128,
  maxJournalBytes: 4 * 1024 * 1024,
  idleLimitMs: 3_600_000,
  maxImages: 16,
  maxImageBytes: 4 * 1024 * 1024,
  maxImagesBytes: 8 * 1024 * 1024,
};

export const CONTRACT_REVISION = 1;
export const MAX_ID_BYTES = 128;
export const MAX_JOURNAL_ENTRIES = 100_000;
export const MAX_OBSERVATION_BYTES = 32 * 1024 * 1024;
