"""An agent's card, and the one that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_runtime.agents import (
    SHIPPED,
    AgentCard,
    AgentFigure,
    PlaySettings,
    agent_folder,
    read_card,
    write_card,
)
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer

CARD = AgentCard(
    name="walker",
    temperature=0.0,
    max_new_tokens=8,
    environments={
        "maze": PlaySettings(
            options={"rows": 7},
            conversation_start=("maze", "OK"),
            max_rounds=5,
            items=("maze_1", "maze_2"),
        ),
        "echo": PlaySettings(),
    },
    figures={"maze": AgentFigure(metric="success rate", value=0.5, low=0.1, high=0.9, episodes=2)},
    made={"seed": 0},
)


def test_a_card_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_card(tmp_path, CARD)
    assert read_card(tmp_path) == CARD
    assert read_card(agent_folder(str(tmp_path))).sampling().temperature == 0


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"layout": 2},
        {"environments": {}},
        {"environments": {"maze": {"opening": ["one"]}}},
        {"environments": {"maze": {"wheels": 4}}},
        {"max_new_tokens": 0},
        {"surprise": 1},
    ],
)
def test_a_card_that_cannot_be_used_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write_card(tmp_path, CARD)
    document = json.loads((tmp_path / "agent.json").read_text())
    (tmp_path / "agent.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(PolicyMisconfigured, match=r"agent\.json"):
        read_card(tmp_path)


def test_a_folder_without_a_card_is_no_agent(tmp_path: Path) -> None:
    with pytest.raises(PolicyMisconfigured, match=r"training\.ship"):
        agent_folder(str(tmp_path))


def test_the_shipped_agent_is_small_and_says_what_it_is() -> None:
    card = read_card(agent_folder(""))
    files = [path for path in SHIPPED.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 20_000_000
    assert {"README.md", "agent.json", "config.json"} <= {path.name for path in files}
    assert card.made["weights"] == weights_digest(SHIPPED)
    for name, settings in card.environments.items():
        assert len(set(settings.items)) == len(settings.items) >= 40
        assert card.figures[name].episodes == len(settings.items)


def test_the_shipped_agents_own_template_ends_its_turns() -> None:
    assert HuggingFaceRenderer(SHIPPED).stop_ids
