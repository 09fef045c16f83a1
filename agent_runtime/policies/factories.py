"""Policies that are not this package's own: found by an entry point, or in a module.

    name, name:TARGET          an installed package's entry point in the group `agentgym.policies`
    module:factory[:TARGET]    a callable of a module that Python finds

A factory takes the target, empty where there is none, and the `PolicyConfig`, and gives a `Policy`.
Installed names come before modules. Nothing is imported before a policy is asked for, and whatever
other people's code raises becomes a PolicyMisconfigured that names it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any, Final

from agent_runtime.errors import AgentRuntimeError, PolicyMisconfigured
from agent_runtime.policies.base import Policy
from agent_runtime.policies.config import PolicyConfig

__all__ = ["ENTRY_POINT_GROUP", "PolicyFactory", "find_factory", "installed_names"]

ENTRY_POINT_GROUP: Final = "agentgym.policies"
_OWN_PACKAGE: Final = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class PolicyFactory:
    """Somebody's factory of policies, imported."""

    spelling: str
    """How it was asked for, for messages."""
    call: Callable[[str, PolicyConfig], Any]
    module: str
    target: str
    """What the factory is given."""
    distribution: str = ""
    """The package that it was installed with, and its version; empty = not known."""

    def make(self, config: PolicyConfig) -> Policy:
        """Return the policy; raises PolicyMisconfigured where the factory gives none."""
        try:
            policy: object = self.call(self.target, config)
        except AgentRuntimeError:
            raise
        except Exception as error:
            raise PolicyMisconfigured(
                f"the factory of policy {self.spelling!r} raised {_described(error)}; it is called "
                "with the target (a text) and the PolicyConfig"
            ) from error
        if not isinstance(policy, Policy):
            raise PolicyMisconfigured(
                f"the factory of policy {self.spelling!r} gave {_kind(policy)}; it has to return "
                "an agent_runtime.policies.Policy"
            )
        return policy

    def code(self, policy: Policy) -> dict[str, str]:
        """Return what identifies the code that plays: module, distribution, digest of its source.

        The digest is over the files of the factory's module and of the policy's class, as far as
        they have any and are not this package's own.
        """
        names = {self.module, self.call.__module__, type(policy).__module__}
        digest = hashlib.sha256()
        files = [_source_file(name) for name in sorted(names) if not _is_own(name)]
        for file in filter(None, files):
            digest.update(file.read_bytes() + b"\0")
        return {
            "module": self.module,
            "distribution": self.distribution,
            "source": digest.hexdigest() if any(files) else "",
        }


def installed_names() -> list[str]:
    """Return the names that installed packages offer policies under, sorted."""
    return sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)})


def find_factory(kind: str, target: str) -> PolicyFactory | None:
    """Return the factory of `kind` or `kind:target`; None = nothing is installed or found so.

    Raises PolicyMisconfigured where there is something that cannot be used.
    """
    spelling = f"{kind}:{target}" if target else kind
    point = _installed_point(kind)
    if point is not None:
        call = _attribute(_imported(point.module, spelling), point.attr, spelling)
        return PolicyFactory(spelling, call, point.module, target, _distribution_of(point))
    name, _, rest = target.partition(":")
    if not name.isidentifier() or not _is_module(kind, spelling):
        return None
    call = _attribute(_imported(kind, spelling), name, spelling)
    return PolicyFactory(spelling, call, kind, rest, _distribution_with(kind))


def _installed_point(name: str) -> EntryPoint | None:
    points = list(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if len(points) > 1:
        offered = ", ".join(f"{_distribution_of(point)} ({point.value})" for point in points)
        raise PolicyMisconfigured(
            f"{len(points)} installed packages offer a policy {name!r}: {offered}; uninstall all "
            f"but one, or name the factory itself: --policy {points[0].module}:{points[0].attr}"
        )
    return points[0] if points else None


def _is_module(name: str, spelling: str) -> bool:
    if name == "__main__" or not all(part.isidentifier() for part in name.split(".")):
        return False
    parent, _, _ = name.rpartition(".")
    if parent and not _is_module(parent, spelling):
        return False
    if parent:
        _imported(parent, spelling)  # as find_spec would, which tells nobody what went wrong
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # its parent is no package, or it was set up by hand
        return name in sys.modules


def _imported(module: str, spelling: str) -> object:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise PolicyMisconfigured(
            f"policy {spelling!r} cannot be used: importing {module} raised {_described(error)}; "
            "mend or install what it needs"
        ) from error


def _attribute(module: object, dotted: str, spelling: str) -> Callable[[str, PolicyConfig], Any]:
    found: object = module
    for name in dotted.split("."):
        found = getattr(found, name, None)
    if not callable(found):
        own: list[str] = [
            name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == vars(module)["__name__"]
        ]
        raise PolicyMisconfigured(
            f"policy {spelling!r}: module {vars(module)['__name__']} has no callable {dotted!r}; "
            f"it defines: {', '.join(own) or 'none'}"
        )
    return found


def _described(error: BaseException) -> str:
    """Return an error in a line, with the line of the file that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if "importlib" not in frame.filename]
    place = f" ({foreign[-1].filename}, line {foreign[-1].lineno})" if len(foreign) > 1 else ""
    return f"{type(error).__name__}: {error}{place}"


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _distribution_of(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""


def _distribution_with(module: str) -> str:
    top = module.partition(".")[0]
    file = _source_file(top)
    # Asking reads what every installed package has, which takes a second.
    if file is None or not any(any(path.glob("*.dist-info")) for path in file.parents[:2]):
        return ""
    owners = packages_distributions().get(top, [])
    return ", ".join(f"{name} {version(name)}" for name in sorted(set(owners)))


def _source_file(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    try:
        found = inspect.getsourcefile(loaded) if loaded is not None else None
    except TypeError:  # made by hand, or compiled
        return None
    return Path(found) if found is not None and Path(found).is_file() else None


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == _OWN_PACKAGE
