"""The benchmark of the viewer looks at a run as a person does, and says how long that took."""

import json

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from benchmark import viewer
from tests.env_servers.environments.webarena.chromium import needs_chromium


@pytest.mark.slow
@needs_chromium
def test_a_run_is_recorded_looked_at_and_measured(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["viewer", "--episodes", "120", "--out", "-"])
    viewer.main()
    figures = json.loads(capsys.readouterr().out)
    assert figures["episodes"] == 120
    assert {"first_page_seconds", "filter_seconds", "episode_p95_seconds", "server_rss_mib"} < set(
        figures
    )
