"""The open page, and what is wanted: for people, agents do not see the latter."""

from __future__ import annotations

from env_servers.environments.webshop.goals import NO_LIMIT
from env_servers.environments.webshop.markup import html_page
from env_servers.environments.webshop.visit import Visit
from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing import document, facts, text_view

__all__ = ["draw"]


def draw(visit: Visit) -> list[View]:
    """Draw a visit."""
    # Texts of official catalogues may hold halves of characters.
    page = html_page(visit).encode("utf-8", "replace")
    known = _facts(visit)
    lines = [*visit.page.parts, "", *(f"{name}: {value}" for name, value in known.items())]
    return [
        View("page", "Page of the shop", MediaType.HTML, page),
        document("goal", "What is wanted, and what was chosen", facts(known)),
        text_view("text", "Page as text", "\n".join(lines)),
    ]


def _facts(visit: Visit) -> dict[str, object]:
    goal, score = visit.goal_spec, visit.score
    options = [one if isinstance(one, str) else ": ".join(one) for one in goal.options]
    known: dict[str, object] = {
        "wanted product": goal.title,
        "wanted attributes": ", ".join(goal.attributes) or "none",
        "wanted options": ", ".join(options) or "none",
        "price limit": "none" if goal.price_limit >= NO_LIMIT else f"${goal.price_limit:.2f}",
        "searched for": visit.keywords[:300] or "nothing",
        "open product": visit.asin or "none",
        "chosen options": ", ".join(f"{key}: {value}" for key, value in visit.chosen.items()),
    }
    if score is not None:
        known |= {
            "reward": f"{score.reward:.3f}",
            "factor for the kind of product": score.kind,
            "attributes met": f"{score.attributes} of {len(goal.attributes)}",
            "options met": f"{score.options} of {len(goal.options)}",
            "price kept": "yes" if score.price_kept else "no",
        }
    return known
