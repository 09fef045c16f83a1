"""What the five tool environments share: declarations, line format, backends, scoring, expert."""

from env_servers.toolkit.tool_calls.backends import (
    EMBEDDED,
    LIVE,
    RECORDED,
    Backend,
    NotRecorded,
    Reply,
    ServiceUnavailable,
    Session,
    TooledSession,
    ToolError,
)
from env_servers.toolkit.tool_calls.declarations import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet
from env_servers.toolkit.tool_calls.environment import ToolEnvironment
from env_servers.toolkit.tool_calls.episode import ToolEpisode
from env_servers.toolkit.tool_calls.line_format import Call, Unreadable, call_key, write_call
from env_servers.toolkit.tool_calls.official import MalformedFile, official_splits, read_tasks
from env_servers.toolkit.tool_calls.payload import ToolTask
from env_servers.toolkit.tool_calls.planning import (
    NO_ANSWER,
    Plan,
    PlannedCall,
    fixed_plan,
    solve,
)
from env_servers.toolkit.tool_calls.recordings import (
    RecordedBackend,
    RecordedSession,
    Recording,
    parse_reply,
    parse_value,
)
from env_servers.toolkit.tool_calls.scoring import Subgoals, equal_exactly, equal_in_value
from env_servers.toolkit.tool_calls.settings import AUTO, ToolSettings
from env_servers.toolkit.tool_calls.tasks import EVAL_BASE, ToolTaskSet

__all__ = [
    "AUTO",
    "CHECK_VALID_ACTIONS",
    "EMBEDDED",
    "EVAL_BASE",
    "FINISH",
    "LIVE",
    "NO_ANSWER",
    "RECORDED",
    "Backend",
    "Call",
    "MalformedFile",
    "NotRecorded",
    "Plan",
    "PlannedCall",
    "RecordedBackend",
    "RecordedSession",
    "Recording",
    "Reply",
    "ServiceUnavailable",
    "Session",
    "Subgoals",
    "Tool",
    "ToolEnvironment",
    "ToolEpisode",
    "ToolError",
    "ToolSet",
    "ToolSettings",
    "ToolTask",
    "ToolTaskSet",
    "TooledSession",
    "Unreadable",
    "call_key",
    "equal_exactly",
    "equal_in_value",
    "fixed_plan",
    "official_splits",
    "parse_reply",
    "parse_value",
    "read_tasks",
    "solve",
    "write_call",
]
