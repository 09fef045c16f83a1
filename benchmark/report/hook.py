"""Puts the page into the site when MkDocs builds it, so that it is as new as the results."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path

from benchmark.report.page import make_page

__all__ = ["on_files"]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to the site's files."""
    files.append(File.generated(config, "measurements.md", content=make_page()))
    return files
