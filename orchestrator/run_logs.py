"""The logs of a run: `RUN/logs/run.jsonl`, and `RUN/logs/server-N.log` of each spawned server.

Servers start before the run folder exists, because its manifest holds what they say of themselves.
Until then the logs lie in a hidden folder beside it, which becomes `RUN/logs` when the run does. A
start that fails leaves them there for whoever looks for the cause.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Final

from agent_runtime.logs import log_file
from agent_runtime.private_files import make_private_folder
from agent_runtime.spawned_server import LogFolder
from orchestrator.errors import FleetError
from orchestrator.run_folder import LOGS_FOLDER

__all__ = ["RUN_LOG", "RunLogs", "open_run_logs"]

RUN_LOG: Final = "run.jsonl"


class RunLogs:
    """Where the logs of one run are now."""

    def __init__(self, run: Path, *, resume: bool) -> None:
        self._final = run / LOGS_FOLDER
        hidden = run.parent / f".{run.name}.{secrets.token_hex(4)}.logs"
        self.folder = LogFolder(self._final if resume else hidden)
        make_private_folder(self.folder.path)

    def settle(self) -> None:
        """Move the logs into the run folder, which exists now; open files are not disturbed."""
        if self.folder.path != self._final:
            self.folder.path.rename(self._final)
            self.folder.path = self._final

    def discard(self) -> None:
        """Delete logs of a run that never came to be."""
        if self.folder.path != self._final:
            shutil.rmtree(self.folder.path, ignore_errors=True)


@contextlib.contextmanager
def open_run_logs(run: Path, run_id: str, *, resume: bool) -> Generator[RunLogs]:
    """Write this program's events to a run's log in the meantime, but those of other runs.

    The logs of a run whose servers did not start are kept, those of one that was asked for wrongly
    are not: the message says it all.
    """
    logs = RunLogs(run, resume=resume)
    try:
        with log_file(logs.folder.path / RUN_LOG, run_id=run_id):
            yield logs
    except FleetError:
        raise
    except BaseException:
        logs.discard()
        raise
