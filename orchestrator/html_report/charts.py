"""Histograms as inline SVG, which a screen reader can read and a printer can print."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from orchestrator.distributions import Histogram
from orchestrator.html_report.elements import element

__all__ = ["histogram_chart"]

_WIDTH: Final = 240
_HEIGHT: Final = 100
_TOP: Final = 22
_BOTTOM: Final = 18


def histogram_chart(name: str, histogram: Histogram) -> ElementTree.Element:
    """Return the chart of a histogram; `name` says what of."""
    episodes = sum(histogram.counts)
    low, high = f"{histogram.low:g}", f"{histogram.high:g}"
    tallest = max(histogram.counts)
    said = f"{name} of {episodes} episodes, from {low} to {high}; "
    said += f"by bin: {', '.join(map(str, histogram.counts))}"
    width = _WIDTH / len(histogram.counts)
    room = _HEIGHT - _TOP - _BOTTOM
    bars = [
        element(
            "rect",
            element("title", f"{count} episodes"),
            x=f"{at * width + 0.5:.2f}",
            y=f"{_TOP + room * (1 - count / tallest):.2f}",
            width=f"{max(width - 1, 0.5):.2f}",
            height=f"{room * count / tallest:.2f}",
            class_="bar",
        )
        for at, count in enumerate(histogram.counts)
        if count
    ]
    base = f"{_HEIGHT - _BOTTOM}"
    chart = element(
        "svg",
        element("text", f"{name}, at most {tallest}", x="0", y="12", class_="label"),
        *bars,
        element("line", x1="0", x2=str(_WIDTH), y1=base, y2=base, class_="axis"),
        element("text", low, x="0", y=str(_HEIGHT - 4), class_="label"),
        element("text", high, x=str(_WIDTH), y=str(_HEIGHT - 4), class_="label end"),
        role="img",
        aria_label=said,
        width=str(_WIDTH),
        height=str(_HEIGHT),
    )
    chart.set("viewBox", f"0 0 {_WIDTH} {_HEIGHT}")
    return chart
