"""The part of the two graphs that was looked up: nodes that were named, and what is beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from env_servers.sdk import View
from env_servers.toolkit.drawing import TreeNode, draw_tree

__all__ = ["draw"]

_MAX_NODES: Final = 20
_MAX_BESIDE: Final = 15
_MAX_LABEL: Final = 200

_Sides = dict[str, list[TreeNode]]
"""What is known beside each node that was named, in the order of the calls."""


def draw(outputs: Mapping[str, Any]) -> list[View]:
    """Draw what calls returned, by `call_key`; nothing where no node was looked up."""
    known: _Sides = {}
    for key, value in outputs.items():
        tool, _, text = key.partition(" ")
        arguments = json.loads(text)
        if isinstance(arguments, dict):
            _note(known, tool, cast("dict[str, Any]", arguments), value)
    if not known:
        return []
    nodes = list(known.items())[-_MAX_NODES:]
    tree = TreeNode(
        "looked up",
        "muted",
        [TreeNode(name, "accent", _some(beside)) for name, beside in nodes],
    )
    heading = "Papers and authors that were named, and what is beside them"
    return [draw_tree(tree, heading).view("graph", "Part of the graphs that was looked up")]


def _note(known: _Sides, tool: str, arguments: Mapping[str, Any], value: Any) -> None:
    """Add what one call tells."""
    node = arguments.get("node", arguments.get("node1"))
    if not isinstance(node, str) or not tool.endswith("Check"):
        return
    beside = known.setdefault(node[:_MAX_LABEL], [])
    if isinstance(value, str):  # a refusal
        beside.append(TreeNode(value[:_MAX_LABEL], "bad"))
    elif isinstance(value, list):
        beside += _leaves(cast("list[Any]", value))
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "node2" in arguments:
            other = str(arguments["node2"])[:_MAX_LABEL]
            beside.append(TreeNode(other, "accent", _some(_of_fields(fields))))
        else:
            beside += _of_fields(fields)


def _of_fields(fields: Mapping[str, Any]) -> list[TreeNode]:
    nodes: list[TreeNode] = []
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            items = _leaves(cast("Sequence[Any]", value))
            nodes.append(TreeNode(name, "muted", _some(items)))
        else:
            nodes.append(TreeNode(f"{name}: {value}"[:_MAX_LABEL], "muted"))
    return nodes


def _leaves(items: Sequence[Any]) -> list[TreeNode]:
    return [TreeNode(str(item)[:_MAX_LABEL]) for item in items]


def _some(nodes: list[TreeNode]) -> list[TreeNode]:
    """The first of many, and how many more there are."""
    hidden = len(nodes) - _MAX_BESIDE
    if hidden <= 0:
        return nodes
    return [*nodes[:_MAX_BESIDE], TreeNode(f"{hidden:,} more", "muted")]
