"""A drawing in SVG: shapes in the colours of `STYLE`, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing.markup import STYLE, Markup, element, join

__all__ = ["Drawing"]

_FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


class Drawing:
    """A sheet of so many units; what is drawn later lies above.

    Colours are those of CSS: `#rrggbb`, or `var(--ink)` and the other names of `STYLE`, which suit
    light and dark.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self._shapes: list[Markup] = []

    def add(self, shape: Markup) -> None:
        """Draw any element."""
        self._shapes.append(shape)

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        stroke: str | None = None,
        radius: float | None = None,
        tip: str = "",
    ) -> None:
        """Draw a rectangle; `tip` is what a mouse above it says."""
        title = (element("title", tip),) if tip else ()
        self.add(
            element(
                "rect",
                *title,
                x=_short(x),
                y=_short(y),
                width=_short(width),
                height=_short(height),
                fill=fill,
                stroke=stroke,
                rx=radius,
            )
        )

    def circle(
        self, x: float, y: float, radius: float, *, fill: str = "none", stroke: str | None = None
    ) -> None:
        """Draw a circle around a point."""
        self.add(
            element(
                "circle", cx=_short(x), cy=_short(y), r=_short(radius), fill=fill, stroke=stroke
            )
        )

    def polygon(self, points: Sequence[tuple[float, float]], *, fill: str) -> None:
        """Draw a filled area."""
        self.add(element("polygon", points=_points(points), fill=fill))

    def line(
        self,
        points: Sequence[tuple[float, float]],
        *,
        stroke: str = "var(--line)",
        width: float = 1,
        dashed: bool = False,
    ) -> None:
        """Draw a line through points."""
        self.add(
            element(
                "polyline",
                points=_points(points),
                fill="none",
                stroke=stroke,
                stroke_width=_short(width),
                stroke_linejoin="round",
                stroke_linecap="round",
                stroke_dasharray="4 4" if dashed else None,
            )
        )

    def text(
        self,
        x: float,
        y: float,
        text: object,
        *,
        size: float = 14,
        fill: str = "var(--ink)",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write one line; `y` is its middle, `anchor` one of start, middle and end."""
        self.add(
            element(
                "text",
                text,
                x=_short(x),
                y=_short(y),
                font_size=_short(size),
                fill=fill,
                text_anchor=None if anchor == "start" else anchor,
                font_weight="bold" if bold else None,
                dominant_baseline="central",
            )
        )

    def view(self, name: str, title: str) -> View:
        """Return what was drawn."""
        size = f"{_short(self.width)} {_short(self.height)}"
        background = element("rect", width="100%", height="100%", fill="var(--paper)")
        svg = element(
            "svg",
            element("title", title),
            element("style", Markup(f"{STYLE}text{{font-family:{_FONT}}}")),
            background,
            join(self._shapes),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {size}",
            width=_short(self.width),
            height=_short(self.height),
            role="img",
        )
        return View(name, title, MediaType.SVG, svg.encode())


def _short(number: float) -> str:
    """Write a coordinate without needless digits."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
