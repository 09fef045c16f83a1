"""What a grid is worth, compared with the one that was asked for.

The original looks only at the part that both grids have; in the strict comparison a missing or a
surplus cell is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Grid", "overlap_share", "strict_share"]

Grid = Sequence[Sequence[str]]


def overlap_share(grid: Grid, target: Grid) -> float:
    """Return the share of equal cells in the rows and columns that both have; 0 without any."""
    height = min(len(grid), len(target))
    width = min(_width(grid), _width(target))
    return _equal_cells(grid, target) / (height * width) if height and width else 0.0


def strict_share(grid: Grid, target: Grid) -> float:
    """Return the share of equal cells in the rows and columns that either grid has."""
    height = max(len(grid), len(target))
    width = max(_width(grid), _width(target))
    return _equal_cells(grid, target) / (height * width) if height and width else 0.0


def _width(grid: Grid) -> int:
    return len(grid[0]) if grid else 0


def _equal_cells(grid: Grid, target: Grid) -> int:
    return sum(
        one == other
        for row, other_row in zip(grid, target, strict=False)
        for one, other in zip(row, other_row, strict=False)
    )
