from agentgym.env.v1 import types_pb2 as _types_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Advisor(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADVISOR_UNSPECIFIED: _ClassVar[Advisor]
    ADVISOR_EXPERT: _ClassVar[Advisor]
    ADVISOR_RANDOM: _ClassVar[Advisor]
    ADVISOR_NOOP: _ClassVar[Advisor]

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    CAPABILITY_DETERMINISTIC: _ClassVar[Capability]
    CAPABILITY_FORK: _ClassVar[Capability]
    CAPABILITY_EXPERT: _ClassVar[Capability]
    CAPABILITY_SCORE: _ClassVar[Capability]
    CAPABILITY_RENDER: _ClassVar[Capability]
    CAPABILITY_IMAGES: _ClassVar[Capability]

class Metric(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METRIC_UNSPECIFIED: _ClassVar[Metric]
    METRIC_SUCCESS_RATE: _ClassVar[Metric]
    METRIC_MEAN_SCORE: _ClassVar[Metric]

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_SEQ_GAP: _ClassVar[ErrorReason]
    ERROR_REASON_SEQ_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_BUSY: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_ENDED: _ClassVar[ErrorReason]
    ERROR_REASON_RESPONSE_EVICTED: _ClassVar[ErrorReason]
    ERROR_REASON_UNKNOWN_ENVIRONMENT: _ClassVar[ErrorReason]
    ERROR_REASON_UNKNOWN_ITEM: _ClassVar[ErrorReason]
    ERROR_REASON_UNKNOWN_SPLIT: _ClassVar[ErrorReason]
    ERROR_REASON_UNKNOWN_OPTION: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED_ACTION_FORMAT: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED_CAPABILITY: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED_VERB: _ClassVar[ErrorReason]
    ERROR_REASON_CONTRACT_REVISION_UNSUPPORTED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_ARGUMENT: _ClassVar[ErrorReason]
    ERROR_REASON_TEXT_TOO_LONG: _ClassVar[ErrorReason]
    ERROR_REASON_CAPACITY_EXHAUSTED: _ClassVar[ErrorReason]
    ERROR_REASON_CLIENT_LIMIT: _ClassVar[ErrorReason]
    ERROR_REASON_CREDITS_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_ENVIRONMENT_CRASHED: _ClassVar[ErrorReason]
    ERROR_REASON_ENVIRONMENT_HUNG: _ClassVar[ErrorReason]
    ERROR_REASON_WORKER_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_REPLAY_DIVERGED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_ENVIRONMENT_UNAVAILABLE: _ClassVar[ErrorReason]
ADVISOR_UNSPECIFIED: Advisor
ADVISOR_EXPERT: Advisor
ADVISOR_RANDOM: Advisor
ADVISOR_NOOP: Advisor
CAPABILITY_UNSPECIFIED: Capability
CAPABILITY_DETERMINISTIC: Capability
CAPABILITY_FORK: Capability
CAPABILITY_EXPERT: Capability
CAPABILITY_SCORE: Capability
CAPABILITY_RENDER: Capability
CAPABILITY_IMAGES: Capability
METRIC_UNSPECIFIED: Metric
METRIC_SUCCESS_RATE: Metric
METRIC_MEAN_SCORE: Metric
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_SEQ_GAP: ErrorReason
ERROR_REASON_SEQ_CONFLICT: ErrorReason
ERROR_REASON_EPISODE_BUSY: ErrorReason
ERROR_REASON_EPISODE_NOT_FOUND: ErrorReason
ERROR_REASON_EPISODE_ENDED: ErrorReason
ERROR_REASON_RESPONSE_EVICTED: ErrorReason
ERROR_REASON_UNKNOWN_ENVIRONMENT: ErrorReason
ERROR_REASON_UNKNOWN_ITEM: ErrorReason
ERROR_REASON_UNKNOWN_SPLIT: ErrorReason
ERROR_REASON_UNKNOWN_OPTION: ErrorReason
ERROR_REASON_UNSUPPORTED_ACTION_FORMAT: ErrorReason
ERROR_REASON_UNSUPPORTED_CAPABILITY: ErrorReason
ERROR_REASON_UNSUPPORTED_VERB: ErrorReason
ERROR_REASON_CONTRACT_REVISION_UNSUPPORTED: ErrorReason
ERROR_REASON_INVALID_ARGUMENT: ErrorReason
ERROR_REASON_TEXT_TOO_LONG: ErrorReason
ERROR_REASON_CAPACITY_EXHAUSTED: ErrorReason
ERROR_REASON_CLIENT_LIMIT: ErrorReason
ERROR_REASON_CREDITS_EXCEEDED: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_ENVIRONMENT_CRASHED: ErrorReason
ERROR_REASON_ENVIRONMENT_HUNG: ErrorReason
ERROR_REASON_WORKER_LOST: ErrorReason
ERROR_REASON_REPLAY_DIVERGED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_ENVIRONMENT_UNAVAILABLE: ErrorReason

class ListEnvironmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEnvironmentsResponse(_message.Message):
    __slots__ = ("environments", "contract_revisions", "server_version")
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    environments: _containers.RepeatedScalarFieldContainer[str]
    contract_revisions: _containers.RepeatedScalarFieldContainer[int]
    server_version: str
    def __init__(self, environments: _Optional[_Iterable[str]] = ..., contract_revisions: _Optional[_Iterable[int]] = ..., server_version: _Optional[str] = ...) -> None: ...

class GetEnvironmentRequest(_message.Message):
    __slots__ = ("environment", "contract_revision", "required_capabilities")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    environment: str
    contract_revision: int
    required_capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    def __init__(self, environment: _Optional[str] = ..., contract_revision: _Optional[int] = ..., required_capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ...) -> None: ...

class GetEnvironmentResponse(_message.Message):
    __slots__ = ("name", "version", "digest", "contract_revision", "description", "capabilities", "action_formats", "profiles", "splits", "metric", "success_score", "max_rounds", "conversation_starts", "functions_json", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_REVISION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    ACTION_FORMATS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_STARTS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    digest: str
    contract_revision: int
    description: str
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    action_formats: _containers.RepeatedScalarFieldContainer[_types_pb2.ActionFormat]
    profiles: _containers.RepeatedScalarFieldContainer[str]
    splits: _containers.RepeatedCompositeFieldContainer[Split]
    metric: Metric
    success_score: float
    max_rounds: int
    conversation_starts: _containers.RepeatedCompositeFieldContainer[ConversationStart]
    functions_json: str
    limits: Limits
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ..., contract_revision: _Optional[int] = ..., description: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ..., action_formats: _Optional[_Iterable[_Union[_types_pb2.ActionFormat, str]]] = ..., profiles: _Optional[_Iterable[str]] = ..., splits: _Optional[_Iterable[_Union[Split, _Mapping]]] = ..., metric: _Optional[_Union[Metric, str]] = ..., success_score: _Optional[float] = ..., max_rounds: _Optional[int] = ..., conversation_starts: _Optional[_Iterable[_Union[ConversationStart, _Mapping]]] = ..., functions_json: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ("name", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class ConversationStart(_message.Message):
    __slots__ = ("action_format", "instruction", "acknowledgement")
    ACTION_FORMAT_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    action_format: _types_pb2.ActionFormat
    instruction: str
    acknowledgement: str
    def __init__(self, action_format: _Optional[_Union[_types_pb2.ActionFormat, str]] = ..., instruction: _Optional[str] = ..., acknowledgement: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_text_bytes", "max_message_bytes", "max_episodes", "max_episodes_per_client", "max_in_flight", "default_lease_ms", "max_lease_ms", "step_limit_ms", "response_cache_events", "max_items_per_message", "max_journal_bytes", "idle_limit_ms", "max_images", "max_image_bytes", "max_images_bytes")
    MAX_TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_EPISODES_FIELD_NUMBER: _ClassVar[int]
    MAX_EPISODES_PER_CLIENT_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    STEP_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_CACHE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_PER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    IDLE_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_IMAGES_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_text_bytes: int
    max_message_bytes: int
    max_episodes: int
    max_episodes_per_client: int
    max_in_flight: int
    default_lease_ms: int
    max_lease_ms: int
    step_limit_ms: int
    response_cache_events: int
    max_items_per_message: int
    max_journal_bytes: int
    idle_limit_ms: int
    max_images: int
    max_image_bytes: int
    max_images_bytes: int
    def __init__(self, max_text_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_episodes: _Optional[int] = ..., max_episodes_per_client: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., default_lease_ms: _Optional[int] = ..., max_lease_ms: _Optional[int] = ..., step_limit_ms: _Optional[int] = ..., response_cache_events: _Optional[int] = ..., max_items_per_message: _Optional[int] = ..., max_journal_bytes: _Optional[int] = ..., idle_limit_ms: _Optional[int] = ..., max_images: _Optional[int] = ..., max_image_bytes: _Optional[int] = ..., max_images_bytes: _Optional[int] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("environment", "split", "page_size", "page_token", "item_ids")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    environment: str
    split: str
    page_size: int
    page_token: str
    item_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, environment: _Optional[str] = ..., split: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., item_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token", "total_size")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskSummary]
    next_page_token: str
    total_size: int
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ...) -> None: ...

class TaskSummary(_message.Message):
    __slots__ = ("item_id", "category")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    category: str
    def __init__(self, item_id: _Optional[str] = ..., category: _Optional[str] = ...) -> None: ...

class InteractRequest(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class InteractResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("episode_id", "seq", "deadline_ms", "traceparent", "action", "reply", "tool_call", "reset", "fork", "attach", "consult", "cancel", "heartbeat", "close", "action_format")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    CONSULT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FORMAT_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    seq: int
    deadline_ms: int
    traceparent: str
    action: str
    reply: str
    tool_call: _types_pb2.ToolCall
    reset: Reset
    fork: Fork
    attach: Attach
    consult: Consult
    cancel: Cancel
    heartbeat: Heartbeat
    close: Close
    action_format: _types_pb2.ActionFormat
    def __init__(self, episode_id: _Optional[str] = ..., seq: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., action: _Optional[str] = ..., reply: _Optional[str] = ..., tool_call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., reset: _Optional[_Union[Reset, _Mapping]] = ..., fork: _Optional[_Union[Fork, _Mapping]] = ..., attach: _Optional[_Union[Attach, _Mapping]] = ..., consult: _Optional[_Union[Consult, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., action_format: _Optional[_Union[_types_pb2.ActionFormat, str]] = ...) -> None: ...

class Reset(_message.Message):
    __slots__ = ("environment", "item_id", "seed", "action_format", "profile", "options", "lease_ms", "journal", "initial_state_hash", "images")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ACTION_FORMAT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    environment: str
    item_id: str
    seed: int
    action_format: _types_pb2.ActionFormat
    profile: str
    options: _struct_pb2.Struct
    lease_ms: int
    journal: _containers.RepeatedCompositeFieldContainer[JournalEntry]
    initial_state_hash: bytes
    images: bool
    def __init__(self, environment: _Optional[str] = ..., item_id: _Optional[str] = ..., seed: _Optional[int] = ..., action_format: _Optional[_Union[_types_pb2.ActionFormat, str]] = ..., profile: _Optional[str] = ..., options: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., lease_ms: _Optional[int] = ..., journal: _Optional[_Iterable[_Union[JournalEntry, _Mapping]]] = ..., initial_state_hash: _Optional[bytes] = ..., images: _Optional[bool] = ...) -> None: ...

class JournalEntry(_message.Message):
    __slots__ = ("input", "state_hash")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    input: _types_pb2.ActionInput
    state_hash: bytes
    def __init__(self, input: _Optional[_Union[_types_pb2.ActionInput, _Mapping]] = ..., state_hash: _Optional[bytes] = ...) -> None: ...

class Fork(_message.Message):
    __slots__ = ("from_episode_id", "lease_ms")
    FROM_EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    from_episode_id: str
    lease_ms: int
    def __init__(self, from_episode_id: _Optional[str] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class Attach(_message.Message):
    __slots__ = ("last_seq_seen",)
    LAST_SEQ_SEEN_FIELD_NUMBER: _ClassVar[int]
    last_seq_seen: int
    def __init__(self, last_seq_seen: _Optional[int] = ...) -> None: ...

class Consult(_message.Message):
    __slots__ = ("advisor", "seed")
    ADVISOR_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    advisor: Advisor
    seed: int
    def __init__(self, advisor: _Optional[_Union[Advisor, str]] = ..., seed: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Event(_message.Message):
    __slots__ = ("episode_id", "seq", "replayed", "observation", "error", "attached", "advice", "cancelled", "lease_extended", "closed", "credits", "reward", "score", "terminated", "truncated", "stop_reason", "state_hash", "info", "parsed_action", "images")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXTENDED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    PARSED_ACTION_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    seq: int
    replayed: bool
    observation: str
    error: _status_pb2.Status
    attached: Attached
    advice: Advice
    cancelled: Cancelled
    lease_extended: LeaseExtended
    closed: Closed
    credits: Credits
    reward: float
    score: float
    terminated: bool
    truncated: bool
    stop_reason: _types_pb2.StopReason
    state_hash: bytes
    info: _struct_pb2.Struct
    parsed_action: str
    images: _containers.RepeatedCompositeFieldContainer[_types_pb2.Image]
    def __init__(self, episode_id: _Optional[str] = ..., seq: _Optional[int] = ..., replayed: _Optional[bool] = ..., observation: _Optional[str] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., attached: _Optional[_Union[Attached, _Mapping]] = ..., advice: _Optional[_Union[Advice, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., lease_extended: _Optional[_Union[LeaseExtended, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ..., credits: _Optional[_Union[Credits, _Mapping]] = ..., reward: _Optional[float] = ..., score: _Optional[float] = ..., terminated: _Optional[bool] = ..., truncated: _Optional[bool] = ..., stop_reason: _Optional[_Union[_types_pb2.StopReason, str]] = ..., state_hash: _Optional[bytes] = ..., info: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., parsed_action: _Optional[str] = ..., images: _Optional[_Iterable[_Union[_types_pb2.Image, _Mapping]]] = ...) -> None: ...

class Attached(_message.Message):
    __slots__ = ("current_seq", "in_flight", "lease_ms")
    CURRENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    current_seq: int
    in_flight: bool
    lease_ms: int
    def __init__(self, current_seq: _Optional[int] = ..., in_flight: _Optional[bool] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class Advice(_message.Message):
    __slots__ = ("action", "thought", "reply")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    THOUGHT_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    action: str
    thought: str
    reply: str
    def __init__(self, action: _Optional[str] = ..., thought: _Optional[str] = ..., reply: _Optional[str] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: _Optional[bool] = ...) -> None: ...

class LeaseExtended(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class Closed(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: _Optional[bool] = ...) -> None: ...

class Credits(_message.Message):
    __slots__ = ("max_in_flight", "instance")
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    max_in_flight: int
    instance: str
    def __init__(self, max_in_flight: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class ListEpisodesRequest(_message.Message):
    __slots__ = ("environment", "page_size", "page_token")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    environment: str
    page_size: int
    page_token: str
    def __init__(self, environment: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEpisodesResponse(_message.Message):
    __slots__ = ("episodes", "next_page_token", "total_size")
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    episodes: _containers.RepeatedCompositeFieldContainer[EpisodeSummary]
    next_page_token: str
    total_size: int
    def __init__(self, episodes: _Optional[_Iterable[_Union[EpisodeSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ...) -> None: ...

class EpisodeSummary(_message.Message):
    __slots__ = ("episode_id", "environment", "item_id", "seq", "ended", "in_flight", "idle_ms", "attached")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    environment: str
    item_id: str
    seq: int
    ended: bool
    in_flight: bool
    idle_ms: int
    attached: bool
    def __init__(self, episode_id: _Optional[str] = ..., environment: _Optional[str] = ..., item_id: _Optional[str] = ..., seq: _Optional[int] = ..., ended: _Optional[bool] = ..., in_flight: _Optional[bool] = ..., idle_ms: _Optional[int] = ..., attached: _Optional[bool] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: Command
    def __init__(self, command: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class ResetResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: Event
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: Command
    def __init__(self, command: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class StepResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: Event
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class CloseRequest(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: Command
    def __init__(self, command: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class CloseResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: Event
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class RenderRequest(_message.Message):
    __slots__ = ("episode_id",)
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    def __init__(self, episode_id: _Optional[str] = ...) -> None: ...

class RenderResponse(_message.Message):
    __slots__ = ("seq", "state_hash", "views")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state_hash: bytes
    views: _containers.RepeatedCompositeFieldContainer[View]
    def __init__(self, seq: _Optional[int] = ..., state_hash: _Optional[bytes] = ..., views: _Optional[_Iterable[_Union[View, _Mapping]]] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("name", "title", "media_type", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    media_type: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., media_type: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...
