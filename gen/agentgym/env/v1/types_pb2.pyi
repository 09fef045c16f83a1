from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActionFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_FORMAT_UNSPECIFIED: _ClassVar[ActionFormat]
    ACTION_FORMAT_REACT: _ClassVar[ActionFormat]
    ACTION_FORMAT_FUNCTION_CALLING: _ClassVar[ActionFormat]
    ACTION_FORMAT_CODE_AS_ACTION: _ClassVar[ActionFormat]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_GOAL_REACHED: _ClassVar[StopReason]
    STOP_REASON_GOAL_FAILED: _ClassVar[StopReason]
    STOP_REASON_STEP_LIMIT: _ClassVar[StopReason]
    STOP_REASON_ANSWERED: _ClassVar[StopReason]
    STOP_REASON_MAX_ROUNDS: _ClassVar[StopReason]
    STOP_REASON_CONTEXT_EXHAUSTED: _ClassVar[StopReason]
    STOP_REASON_POLICY_ERROR: _ClassVar[StopReason]
    STOP_REASON_ENVIRONMENT_ERROR: _ClassVar[StopReason]
    STOP_REASON_INFRASTRUCTURE_ERROR: _ClassVar[StopReason]
    STOP_REASON_CANCELLED: _ClassVar[StopReason]
    STOP_REASON_COST_LIMIT: _ClassVar[StopReason]
    STOP_REASON_TOKEN_LIMIT: _ClassVar[StopReason]
    STOP_REASON_TIME_LIMIT: _ClassVar[StopReason]

class Fault(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAULT_UNSPECIFIED: _ClassVar[Fault]
    FAULT_AGENT: _ClassVar[Fault]
    FAULT_ENVIRONMENT: _ClassVar[Fault]
    FAULT_POLICY: _ClassVar[Fault]
    FAULT_INFRASTRUCTURE: _ClassVar[Fault]
ACTION_FORMAT_UNSPECIFIED: ActionFormat
ACTION_FORMAT_REACT: ActionFormat
ACTION_FORMAT_FUNCTION_CALLING: ActionFormat
ACTION_FORMAT_CODE_AS_ACTION: ActionFormat
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_GOAL_REACHED: StopReason
STOP_REASON_GOAL_FAILED: StopReason
STOP_REASON_STEP_LIMIT: StopReason
STOP_REASON_ANSWERED: StopReason
STOP_REASON_MAX_ROUNDS: StopReason
STOP_REASON_CONTEXT_EXHAUSTED: StopReason
STOP_REASON_POLICY_ERROR: StopReason
STOP_REASON_ENVIRONMENT_ERROR: StopReason
STOP_REASON_INFRASTRUCTURE_ERROR: StopReason
STOP_REASON_CANCELLED: StopReason
STOP_REASON_COST_LIMIT: StopReason
STOP_REASON_TOKEN_LIMIT: StopReason
STOP_REASON_TIME_LIMIT: StopReason
FAULT_UNSPECIFIED: Fault
FAULT_AGENT: Fault
FAULT_ENVIRONMENT: Fault
FAULT_POLICY: Fault
FAULT_INFRASTRUCTURE: Fault

class ToolCall(_message.Message):
    __slots__ = ("name", "arguments_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments_json: str
    def __init__(self, name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class ActionInput(_message.Message):
    __slots__ = ("action", "reply", "tool_call", "action_format")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FORMAT_FIELD_NUMBER: _ClassVar[int]
    action: str
    reply: str
    tool_call: ToolCall
    action_format: ActionFormat
    def __init__(self, action: _Optional[str] = ..., reply: _Optional[str] = ..., tool_call: _Optional[_Union[ToolCall, _Mapping]] = ..., action_format: _Optional[_Union[ActionFormat, str]] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("media_type", "content")
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    media_type: str
    content: bytes
    def __init__(self, media_type: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...
