"""Every claim of the security page names a test, and every test that it names is there."""

from __future__ import annotations

import re

from tests.docs.test_documentation import DOCS, REPOSITORY

PAGE = (DOCS / "security.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert named
    for file, test in named:
        source = (REPOSITORY / file).read_text("utf-8")
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_every_row_names_a_test() -> None:
    tables = re.split(r"^## ", PAGE, flags=re.MULTILINE)[2:]
    for table in tables:
        rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
        assert rows, table[:40]
        for row in rows:
            assert NAMED.search(row), row
        assert "**Not protected.**" in table, table[:40]
