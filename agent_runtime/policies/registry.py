"""From a policy's name to the policy; the only place that lists which there are.

Each kind is imported when it is asked for, so that naming one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies.base import Policy
from agent_runtime.policies.config import PolicyConfig

__all__ = ["POLICY_FORMS", "make_policy"]

Factory = Callable[[str, PolicyConfig], Policy]


def _scripted(name: str) -> Factory:
    def make(_argument: str, _config: PolicyConfig) -> Policy:
        from agent_runtime.policies.scripted import ScriptedPolicy

        return ScriptedPolicy(name)

    return make


def _openai(model: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.openai import OpenAIPolicy

    return OpenAIPolicy(model, config)


def _sglang(url: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.sglang import SGLangPolicy

    return SGLangPolicy(url, config)


def _embedded(path: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.embedded import EmbeddedPolicy

    return EmbeddedPolicy(path, config)


def _agent(folder: str, config: PolicyConfig) -> Policy:
    from agent_runtime.agents.card import agent_folder, read_card
    from agent_runtime.policies.trained import AgentPolicy

    path = agent_folder(folder)
    return AgentPolicy(f"agent:{folder}" if folder else "agent", path, read_card(path), config)


_FACTORIES: Final[Mapping[str, tuple[str, Factory]]] = {
    "expert": ("", _scripted("expert")),
    "random": ("", _scripted("random")),
    "noop": ("", _scripted("noop")),
    "openai": ("MODEL", _openai),
    "sglang": ("URL", _sglang),
    "embedded": ("PATH", _embedded),
    "agent": ("[FOLDER]", _agent),
}
_OPTIONAL: Final = "["
POLICY_FORMS: Final = tuple(
    kind if not argument or argument[0] == _OPTIONAL else f"{kind}:{argument}"
    for kind, (argument, _) in _FACTORIES.items()
)
"""How policies are written on a command line."""


def make_policy(spec: str, config: PolicyConfig) -> Policy:
    """The policy that a command line names, for example `expert` or `openai:MODEL`.

    Raises PolicyMisconfigured for an unknown kind, a missing or superfluous argument, or settings
    that this kind cannot work with. Nothing is connected before `Policy.start`.
    """
    kind, _, argument = spec.partition(":")
    if kind not in _FACTORIES:
        raise PolicyMisconfigured(f"unknown policy {spec!r}; there are: {', '.join(POLICY_FORMS)}")
    wanted, factory = _FACTORIES[kind]
    optional = wanted.startswith(_OPTIONAL)
    if (bool(wanted) != bool(argument) and not optional) or (":" in spec and not argument):
        form = f"{kind}:{wanted}" if wanted else kind
        raise PolicyMisconfigured(f"policy {spec!r} is to be written {form}")
    return factory(argument, config)
