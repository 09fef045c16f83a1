"""A run as one HTML file that needs nothing else: no server, no script, nothing from elsewhere.

Everything that a run says is text in a tree of elements, so that it is escaped wherever it stands;
the page's own policy forbids scripts, images and requests on top.
"""

from __future__ import annotations

from orchestrator.html_report.document import HtmlReportWriter

__all__ = ["HtmlReportWriter"]
