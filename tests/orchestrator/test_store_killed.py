import signal
import subprocess
import sys
from pathlib import Path

from orchestrator.store import RunReader, RunStore
from tests.orchestrator.records import build_episode, build_manifest, build_session

COUNT = 2000
REPOSITORY = Path(__file__).resolve().parents[2]


def write_and_kill(folder: Path, after: int) -> set[str]:
    """Item ids whose append had returned when the writing process was killed."""
    command = [sys.executable, "-m", "tests.orchestrator.writing_process", str(folder), str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        told = [process.stdout.readline() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        # What it said before it died counts, too.
        told += process.stdout.readlines()
        assert process.wait() == -signal.SIGKILL
    return {f"maze_{line.strip()}" for line in told if line.endswith("\n")}


def test_kill_9_at_any_time_loses_no_appended_episode_and_a_resume_duplicates_none(tmp_path):
    folder = tmp_path / "run"
    kept: set[str] = set()
    for after in (1, 30, 333):
        kept |= write_and_kill(folder, after)
        with RunReader.open(folder) as reader:
            stored = [summary.item_id for summary in reader.summaries()]
            assert kept <= set(stored)
            assert len(stored) == len(set(stored)) < COUNT
            assert reader.verify() == []
    with RunStore.resume(folder, build_manifest(), build_session()) as store:
        finished = {key.item_id for key in store.finished_keys()}
        assert kept <= finished
        rest = [f"maze_{at}" for at in range(COUNT) if f"maze_{at}" not in finished]
        store.append_all(build_episode(item_id) for item_id in rest)
        assert store.count() == COUNT
        assert store.verify() == []
        assert len(store.manifest.sessions) == 4
