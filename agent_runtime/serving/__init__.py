"""Starting model servers on this machine, and knowing which of them may serve.

Importing this package starts nothing and loads no engine: SGLang lives in an interpreter of its
own (`installation`), so that its dependencies never bind this project's.
"""

from agent_runtime.serving.base import Served
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.launch import serving

__all__ = ["ServeConfig", "Served", "serving"]
