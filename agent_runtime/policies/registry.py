"""From a policy's name to the policy; the only place that lists which come with this package.

Each kind is imported when it is asked for, so that naming one costs nothing. The names of this
package come first; what else there is, `agent_runtime.policies.factories` finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies.base import Policy
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.factories import PolicyFactory, find_factory, installed_names

__all__ = ["POLICY_FORMS", "PolicySpec", "make_policy", "policy_code"]

Factory = Callable[[str, PolicyConfig], Policy]


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """Which policy plays: its kind, and what it is made of."""

    kind: str
    """`expert`, `openai`, ...: a key of this module's list; else a name that an installed package
    offers, or a module."""
    target: str = ""
    """A model's name, a server's address, a folder: what the kind asks for; empty = nothing. Of a
    module: `factory` or `factory:TARGET`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND` or `KIND:TARGET`, as command lines and records write it.

        Raises PolicyMisconfigured where nothing follows the colon.
        """
        kind, colon, target = text.partition(":")
        if colon and not target:
            raise _misspelt(text, kind)
        return cls(kind, target)

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    @property
    def built_in(self) -> bool:
        """Whether it comes with this package, so that no other code is imported for it."""
        return self.kind in _FACTORIES


def _scripted(name: str) -> Factory:
    def make(_argument: str, config: PolicyConfig) -> Policy:
        from agent_runtime.policies.scripted import ScriptedPolicy

        return ScriptedPolicy(name, actions_only=config.actions_only)

    return make


def _openai(model: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.openai import OpenAIPolicy

    return OpenAIPolicy(model, config)


def _sglang(url: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.sglang import SGLangPolicy

    return SGLangPolicy(url, config)


def _litellm(model: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.litellm import LiteLLMPolicy

    return LiteLLMPolicy(model, config)


def _embedded(path: str, config: PolicyConfig) -> Policy:
    from agent_runtime.policies.embedded import EmbeddedPolicy

    return EmbeddedPolicy(path, config)


def _agent(folder: str, config: PolicyConfig) -> Policy:
    from agent_runtime.agents.manifest import agent_folder, read_agent_manifest
    from agent_runtime.policies.packaged import AgentPolicy

    path = agent_folder(folder)
    return AgentPolicy(
        f"agent:{folder}" if folder else "agent", path, read_agent_manifest(path), config
    )


_FACTORIES: Final[Mapping[str, tuple[str, Factory]]] = {
    "expert": ("", _scripted("expert")),
    "random": ("", _scripted("random")),
    "noop": ("", _scripted("noop")),
    "openai": ("MODEL", _openai),
    "litellm": ("PROVIDER/MODEL", _litellm),
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


def make_policy(spec: PolicySpec | str, config: PolicyConfig) -> Policy:
    """Return the policy of a spec, or of its text, for example `expert` or `openai:MODEL`.

    Raises PolicyMisconfigured for an unknown kind, a missing or superfluous argument, settings
    that this kind cannot work with, or somebody's factory that cannot be used. Nothing is connected
    before `Policy.start`.
    """
    if isinstance(spec, str):
        spec = PolicySpec.parse(spec)
    if not spec.built_in:
        return _find(spec).make(config)
    argument, factory = _FACTORIES[spec.kind]
    optional = argument.startswith(_OPTIONAL)
    if bool(argument) != bool(spec.target) and not optional:
        raise _misspelt(str(spec), spec.kind)
    return factory(spec.target, config)


def policy_code(spec: PolicySpec, policy: Policy) -> dict[str, str]:
    """Return what identifies the code of a policy that was made; empty = this package's own."""
    return {} if spec.built_in else _find(spec).code(policy)


def _find(spec: PolicySpec) -> PolicyFactory:
    factory = find_factory(spec.kind, spec.target)
    if factory is None:
        raise _unknown(str(spec))
    return factory


def _unknown(text: str) -> PolicyMisconfigured:
    names = ", ".join((*POLICY_FORMS, *installed_names()))
    return PolicyMisconfigured(
        f"unknown policy {text!r}; there are: {names}; or MODULE:FACTORY, where MODULE is one that "
        "Python finds from here"
    )


def _misspelt(text: str, kind: str) -> PolicyMisconfigured:
    if kind not in _FACTORIES:
        return _unknown(text)
    argument, _ = _FACTORIES[kind]
    form = f"{kind}:{argument}" if argument else kind
    return PolicyMisconfigured(f"policy {text!r} is to be written {form}")
