"""How an episode is scored: by its answer, by its last address, by what pages say.

The rules are the original's, measured on its own evaluators. It knows no browser (`Page` is what it
needs of one) and no network (`ShopService`), and no language model (`Judge`).
"""

from env_servers.environments.webarena.evaluation.criteria import Criteria, Evaluator, read_criteria
from env_servers.environments.webarena.evaluation.errors import (
    EvaluationFailed,
    PageFailed,
    UnreadableVerdict,
    UnusableCriteria,
)
from env_servers.environments.webarena.evaluation.evaluator import Score, evaluate
from env_servers.environments.webarena.evaluation.judge import (
    Judge,
    OfflineJudge,
    PolicyJudge,
    Question,
)
from env_servers.environments.webarena.evaluation.lookups import ShopService
from env_servers.environments.webarena.evaluation.page import Page
from env_servers.environments.webarena.evaluation.programs import check_target

__all__ = [
    "Criteria",
    "EvaluationFailed",
    "Evaluator",
    "Judge",
    "OfflineJudge",
    "Page",
    "PageFailed",
    "PolicyJudge",
    "Question",
    "Score",
    "ShopService",
    "UnreadableVerdict",
    "UnusableCriteria",
    "check_target",
    "evaluate",
    "read_criteria",
]
