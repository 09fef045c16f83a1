"""What an environment author uses: write an `Environment` and a `TaskSet`, get everything else."""

from env_servers.sdk.async_environment import AsyncEnvironment
from env_servers.sdk.environment import Environment, EnvironmentConfig, EnvironmentSpec
from env_servers.sdk.episode_environment import EpisodeEnvironment
from env_servers.sdk.errors import (
    EnvironmentUnavailable,
    InvalidOption,
    SdkError,
    UnknownEnvironment,
    UnknownItem,
    UnknownSplit,
)
from env_servers.sdk.grammar import (
    Grammar,
    Parameter,
    Rejected,
    Verb,
    read_first_action,
    read_last_action,
    read_single_action,
)
from env_servers.sdk.images import Image, ImageType, UnfitImage
from env_servers.sdk.registry import BUILT_IN, environment_names, load_environment
from env_servers.sdk.tasks import (
    EMBEDDED_BASE,
    RangeSplit,
    RangeTaskSet,
    StaticTaskSet,
    TaskSet,
    item_index,
)
from env_servers.sdk.types import (
    ActionFormat,
    Advice,
    Advisor,
    ConversationStart,
    Execution,
    Metric,
    Observation,
    ResetOptions,
    StopReason,
    Task,
)
from env_servers.sdk.views import MediaType, UnfitView, View

__all__ = [
    "BUILT_IN",
    "EMBEDDED_BASE",
    "ActionFormat",
    "Advice",
    "Advisor",
    "AsyncEnvironment",
    "ConversationStart",
    "Environment",
    "EnvironmentConfig",
    "EnvironmentSpec",
    "EnvironmentUnavailable",
    "EpisodeEnvironment",
    "Execution",
    "Grammar",
    "Image",
    "ImageType",
    "InvalidOption",
    "MediaType",
    "Metric",
    "Observation",
    "Parameter",
    "RangeSplit",
    "RangeTaskSet",
    "Rejected",
    "ResetOptions",
    "SdkError",
    "StaticTaskSet",
    "StopReason",
    "Task",
    "TaskSet",
    "UnfitImage",
    "UnfitView",
    "UnknownEnvironment",
    "UnknownItem",
    "UnknownSplit",
    "Verb",
    "View",
    "environment_names",
    "item_index",
    "load_environment",
    "read_first_action",
    "read_last_action",
    "read_single_action",
]
