"""`python -m benchmark.report`: one page of all committed results, Markdown with plots in SVG."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmark.report.page import make_page

__all__ = ["Report", "main"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Write the page. The docs make it anew whenever they are built."""

    out: Path | None = None
    """File; default: print."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page."""
    config = tyro.cli(Report, args=argv, prog="python -m benchmark.report")
    if config.out is None:
        sys.stdout.write(make_page())
    else:
        config.out.write_text(make_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
