"""Bar charts as inline SVG, in the colours of the page around them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.html_report.elements import element, render

__all__ = ["Chart"]

_WIDTH: Final = 720
_LABEL: Final = 250
_VALUE: Final = 90
_ROW: Final = 22
_TOP: Final = 30
_FILL: Final = "var(--md-primary-fg-color, #00897b)"


@dataclass(frozen=True, slots=True)
class Chart:
    """Horizontal bars, one for each name."""

    title: str
    """With the unit."""
    values: Mapping[str, float]
    """None is negative."""
    logarithmic: bool = False
    """Bars from the power of ten below the smallest on; for values that differ by orders."""

    def svg(self) -> str:
        """Return the drawing in one line, as Markdown takes it for HTML."""
        height = _TOP + _ROW * len(self.values) + 4
        parts = [element("text", self._heading(), x="0", y="16", font_weight="bold")]
        room = _WIDTH - _LABEL - _VALUE
        for row, (name, value) in enumerate(self.values.items()):
            top, width = _TOP + row * _ROW, room * self._share(value)
            middle = str(top + 14)
            parts += [
                element("text", name, x=str(_LABEL - 8), y=middle, text_anchor="end"),
                element(
                    "rect",
                    x=str(_LABEL),
                    y=str(top),
                    width=f"{max(width, 1):.1f}",
                    height=str(_ROW - 4),
                    fill=_FILL,
                ),
                element("text", _short(value), x=f"{_LABEL + width + 6:.1f}", y=middle),
            ]
        said = ", ".join(f"{name} {_short(value)}" for name, value in self.values.items())
        drawn = element(
            "svg",
            *parts,
            role="img",
            aria_label=f"{self.title}: {said}",
            width="100%",
            font_size="13",
            fill="currentColor",
        )
        drawn.set("viewBox", f"0 0 {_WIDTH} {height}")
        return f"<div>{render(drawn)}</div>"

    def _heading(self) -> str:
        return f"{self.title}, logarithmic" if self.logarithmic else self.title

    def _share(self, value: float) -> float:
        largest = max(self.values.values())
        if value <= 0 or largest <= 0:
            return 0.0
        if not self.logarithmic:
            return value / largest
        floor = math.floor(math.log10(min(it for it in self.values.values() if it > 0)))
        return (math.log10(value) - floor) / max(math.log10(largest) - floor, 1e-9)


def _short(value: float) -> str:
    """Three digits, and thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
