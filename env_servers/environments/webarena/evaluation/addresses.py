"""The address of the last page against reference addresses.

Of an address host, path and query count; the reference's host and path must be part of the page's.
Queries of alternatives are merged, as in the original: each of their keys must be in the page's
query with one of its values.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlparse

from env_servers.environments.webarena.evaluation.criteria import URL_RULE, Criteria
from env_servers.environments.webarena.evaluation.errors import UnusableCriteria

__all__ = ["score_address"]


def score_address(criteria: Criteria, url: str) -> float:
    """Return 1.0 or 0.0; raises UnusableCriteria."""
    if criteria.url is None:
        raise UnusableCriteria(
            "the task has no reference address", shown="'NoneType' object has no attribute 'split'"
        )
    if criteria.url_rule != URL_RULE:
        raise UnusableCriteria(f"Unknown matching rule: {criteria.url_rule}")
    place, query = _parts(url)
    wanted: dict[str, set[str]] = {}
    found = False
    for reference in criteria.url.split(" |OR| "):
        part, reference_query = _parts(reference)
        found = found or part in place
        for key, values in reference_query.items():
            wanted.setdefault(key, set()).update(values)
    return float(found and all(values & set(query.get(key, ())) for key, values in wanted.items()))


def _parts(url: str) -> tuple[str, dict[str, list[str]]]:
    """Host with path, and query."""
    try:
        parts = urlparse(url.rstrip("/"))
    except ValueError as error:
        raise UnusableCriteria(str(error)) from error
    return parts.netloc + parts.path, parse_qs(parts.query)
