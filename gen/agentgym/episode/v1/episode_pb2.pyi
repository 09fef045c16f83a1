from agentgym.env.v1 import types_pb2 as _types_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_SYSTEM: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ASSISTANT: _ClassVar[Role]

class TokenOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_ORIGIN_UNSPECIFIED: _ClassVar[TokenOrigin]
    TOKEN_ORIGIN_CONTEXT: _ClassVar[TokenOrigin]
    TOKEN_ORIGIN_SAMPLED: _ClassVar[TokenOrigin]
    TOKEN_ORIGIN_FORCED: _ClassVar[TokenOrigin]
ROLE_UNSPECIFIED: Role
ROLE_SYSTEM: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
TOKEN_ORIGIN_UNSPECIFIED: TokenOrigin
TOKEN_ORIGIN_CONTEXT: TokenOrigin
TOKEN_ORIGIN_SAMPLED: TokenOrigin
TOKEN_ORIGIN_FORCED: TokenOrigin

class Episode(_message.Message):
    __slots__ = ("schema_version", "run_id", "episode_id", "environment", "environment_version", "environment_digest", "item_id", "category", "split", "sample", "attempt", "seed", "action_format", "profile", "options", "policy", "parent", "images", "messages", "steps", "generations", "token_segments", "reward", "score", "success", "terminated", "truncated", "stop_reason", "error", "started_unix_ms", "ended_unix_ms", "environment_seconds", "policy_seconds")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FORMAT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    run_id: str
    episode_id: str
    environment: str
    environment_version: str
    environment_digest: str
    item_id: str
    category: str
    split: str
    sample: int
    attempt: int
    seed: int
    action_format: _types_pb2.ActionFormat
    profile: str
    options: _struct_pb2.Struct
    policy: str
    parent: Parent
    images: _containers.RepeatedCompositeFieldContainer[_types_pb2.Image]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    generations: _containers.RepeatedCompositeFieldContainer[Generation]
    token_segments: _containers.RepeatedCompositeFieldContainer[TokenSegment]
    reward: float
    score: float
    success: bool
    terminated: bool
    truncated: bool
    stop_reason: _types_pb2.StopReason
    error: EpisodeError
    started_unix_ms: int
    ended_unix_ms: int
    environment_seconds: float
    policy_seconds: float
    def __init__(self, schema_version: _Optional[int] = ..., run_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., environment: _Optional[str] = ..., environment_version: _Optional[str] = ..., environment_digest: _Optional[str] = ..., item_id: _Optional[str] = ..., category: _Optional[str] = ..., split: _Optional[str] = ..., sample: _Optional[int] = ..., attempt: _Optional[int] = ..., seed: _Optional[int] = ..., action_format: _Optional[_Union[_types_pb2.ActionFormat, str]] = ..., profile: _Optional[str] = ..., options: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., policy: _Optional[str] = ..., parent: _Optional[_Union[Parent, _Mapping]] = ..., images: _Optional[_Iterable[_Union[_types_pb2.Image, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., generations: _Optional[_Iterable[_Union[Generation, _Mapping]]] = ..., token_segments: _Optional[_Iterable[_Union[TokenSegment, _Mapping]]] = ..., reward: _Optional[float] = ..., score: _Optional[float] = ..., success: _Optional[bool] = ..., terminated: _Optional[bool] = ..., truncated: _Optional[bool] = ..., stop_reason: _Optional[_Union[_types_pb2.StopReason, str]] = ..., error: _Optional[_Union[EpisodeError, _Mapping]] = ..., started_unix_ms: _Optional[int] = ..., ended_unix_ms: _Optional[int] = ..., environment_seconds: _Optional[float] = ..., policy_seconds: _Optional[float] = ...) -> None: ...

class Parent(_message.Message):
    __slots__ = ("run_id", "episode_id", "turn")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    episode_id: str
    turn: int
    def __init__(self, run_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., turn: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "text", "sampled", "images")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    role: Role
    text: str
    sampled: bool
    images: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., text: _Optional[str] = ..., sampled: _Optional[bool] = ..., images: _Optional[_Iterable[int]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("seq", "input", "parsed_action", "observation", "reward", "score", "terminated", "truncated", "stop_reason", "state_hash", "info", "seconds", "images")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PARSED_ACTION_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    input: _types_pb2.ActionInput
    parsed_action: str
    observation: str
    reward: float
    score: float
    terminated: bool
    truncated: bool
    stop_reason: _types_pb2.StopReason
    state_hash: bytes
    info: _struct_pb2.Struct
    seconds: float
    images: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, seq: _Optional[int] = ..., input: _Optional[_Union[_types_pb2.ActionInput, _Mapping]] = ..., parsed_action: _Optional[str] = ..., observation: _Optional[str] = ..., reward: _Optional[float] = ..., score: _Optional[float] = ..., terminated: _Optional[bool] = ..., truncated: _Optional[bool] = ..., stop_reason: _Optional[_Union[_types_pb2.StopReason, str]] = ..., state_hash: _Optional[bytes] = ..., info: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., seconds: _Optional[float] = ..., images: _Optional[_Iterable[int]] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ("turn", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "sampling_seed", "seconds", "policy_version", "cost_usd", "repeats", "reasoning", "reasoning_tokens", "cache_write_tokens", "output_items", "same_completion", "from_cache", "policy")
    class RepeatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TURN_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_SEED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ITEMS_FIELD_NUMBER: _ClassVar[int]
    SAME_COMPLETION_FIELD_NUMBER: _ClassVar[int]
    FROM_CACHE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    turn: int
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    sampling_seed: int
    seconds: float
    policy_version: str
    cost_usd: float
    repeats: _containers.ScalarMap[str, int]
    reasoning: str
    reasoning_tokens: int
    cache_write_tokens: int
    output_items: _containers.RepeatedScalarFieldContainer[str]
    same_completion: bool
    from_cache: bool
    policy: str
    def __init__(self, turn: _Optional[int] = ..., finish_reason: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., sampling_seed: _Optional[int] = ..., seconds: _Optional[float] = ..., policy_version: _Optional[str] = ..., cost_usd: _Optional[float] = ..., repeats: _Optional[_Mapping[str, int]] = ..., reasoning: _Optional[str] = ..., reasoning_tokens: _Optional[int] = ..., cache_write_tokens: _Optional[int] = ..., output_items: _Optional[_Iterable[str]] = ..., same_completion: _Optional[bool] = ..., from_cache: _Optional[bool] = ..., policy: _Optional[str] = ...) -> None: ...

class TokenSegment(_message.Message):
    __slots__ = ("ids", "origins", "logprobs", "generations", "policy_versions", "version_spans", "fork_reason", "entropies")
    IDS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    VERSION_SPANS_FIELD_NUMBER: _ClassVar[int]
    FORK_REASON_FIELD_NUMBER: _ClassVar[int]
    ENTROPIES_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    origins: _containers.RepeatedScalarFieldContainer[TokenOrigin]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    generations: _containers.RepeatedScalarFieldContainer[int]
    policy_versions: _containers.RepeatedScalarFieldContainer[str]
    version_spans: _containers.RepeatedCompositeFieldContainer[VersionSpan]
    fork_reason: str
    entropies: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., origins: _Optional[_Iterable[_Union[TokenOrigin, str]]] = ..., logprobs: _Optional[_Iterable[float]] = ..., generations: _Optional[_Iterable[int]] = ..., policy_versions: _Optional[_Iterable[str]] = ..., version_spans: _Optional[_Iterable[_Union[VersionSpan, _Mapping]]] = ..., fork_reason: _Optional[str] = ..., entropies: _Optional[_Iterable[float]] = ...) -> None: ...

class VersionSpan(_message.Message):
    __slots__ = ("start", "end", "version")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    version: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class EpisodeError(_message.Message):
    __slots__ = ("reason", "message", "fault", "retriable", "at_seq", "retry_after")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    fault: _types_pb2.Fault
    retriable: bool
    at_seq: int
    retry_after: float
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., fault: _Optional[_Union[_types_pb2.Fault, str]] = ..., retriable: _Optional[bool] = ..., at_seq: _Optional[int] = ..., retry_after: _Optional[float] = ...) -> None: ...
