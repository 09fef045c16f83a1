"""What tests of trainings share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread: models of tests are too small for more."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def server(speaker: Path) -> Iterator[str]:
    """A model server that lives longer than the trainings that play on it, and push to it.

    Its probabilities are the model's. `speaker` is the test module's.
    """
    from anyio.from_thread import start_blocking_portal

    from agent_runtime.serving import serving
    from agent_runtime.serving.config import ServeConfig

    options = ("max-slots=64", "threads=1")  # nothing is evicted
    config = ServeConfig(
        engine="embedded", device="cpu", context_length=512, engine_options=options
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(str(speaker), config, in_process=True)) as served,
    ):
        yield served.address
