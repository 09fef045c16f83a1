"""What a run loses beside a model server that behaves as hosted ones do.

    python -m benchmark.policy.flaky [--pairs 3] [--episodes 40] [--inspect PYTHON]

Plays fourteen environments twice through `python -m orchestrator.sample`: against a faultless fake
server of 50 to 300 ms (`tests.kit.fake_openai`), and against one that in addition refuses 3 % of
its requests with `retry-after: 1`, fails 2 %, cuts 2 % of its answers off and never answers 1 %.
Counted are the episodes that finished, the good replies thrown away and the time from the first
episode to the last. The two take turns, for a run ends with its unluckiest episode: the ratio is
the median of those of the pairs. With `--inspect` an interpreter that has inspect-ai plays some
conversations of as many turns against the same two servers, once.

Owns the measurement; prints one table and writes JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.manifest import read_manifest

__all__ = ["Flaky", "main"]

RESULT: Final = Path(__file__).parent.parent / "results" / "policy" / "flaky.json"
_INSPECT: Final = Path(__file__).with_name("flaky_inspect.py")
_ENVIRONMENTS: Final = (
    *("academia", "alfworld", "babyai", "bird", "maze", "movie", "sciworld"),
    *("searchqa", "sheet", "textcraft", "todo", "weather", "webshop", "wordle"),
)
Faults = Literal["none", "hosted"]
_SERVERS: Final[tuple[tuple[str, Faults], ...]] = (("faultless", "none"), ("hosted", "hosted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """What is played."""

    environments: tuple[str, ...] = _ENVIRONMENTS
    """Each with its own number of rounds."""
    episodes: int = 40
    """Tasks of each."""
    concurrency: int = 256
    """Episodes that are live at once."""
    max_requests: int = 64
    """Requests in flight at most: what the server's times, not this machine's, bound."""
    pairs: int = 3
    """How often both servers are played against, in turn."""
    request_timeout: float | None = None
    """Seconds after which an answer is taken for a hung one; default: the command's own number."""
    inspect: Path | None = None
    """An interpreter with inspect-ai."""
    conversations: int = 30
    """How many it plays: it takes several times as long."""
    inspect_timeout: int = 2
    """Seconds after which it takes an answer for a hung one: it has to be told."""
    out: Path = RESULT
    """Where the figures are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run came to."""

    planned: int
    finished: int
    seconds: float
    """From the first episode's start to the end of the last."""
    requests: int
    """What the server was asked."""
    thrown_away: int
    """Whole replies that nobody used: of episodes given up or played anew, or after a timeout."""
    server: dict[str, int]
    """What the server answered."""
    resent: dict[str, int]
    """Requests that were sent again, by reason."""


@contextmanager
def fake_server(faults: Faults) -> Generator[str]:
    """A fake server in a process of its own; gives its base address."""
    command = [sys.executable, "-m", "tests.kit.fake_openai", "--faults", faults]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def answers_of(url: str) -> dict[str, int]:
    """What a server says that it answered."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/fake/answers", timeout=10) as reply:
        return json.load(reply)


def play(options: Flaky, faults: Faults) -> Figures:
    """Play a run against a server with these faults."""
    with fake_server(faults) as url, tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        command = [
            *(sys.executable, "-m", "orchestrator.sample", "--policy", "openai:fake", "--json"),
            *("--env", ",".join(options.environments), "--episodes", str(options.episodes)),
            *("--openai.base-url", url, "--concurrency", str(options.concurrency)),
            *("--max-requests", str(options.max_requests), "--out", str(run)),
            *("--log-level", "error"),
        ]
        if options.request_timeout is not None:
            command += ["--request-timeout", str(options.request_timeout)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(done.returncode)
        summary: dict[str, Any] = json.loads(done.stdout)
        seconds = _seconds(run / "logs" / "run.jsonl")
        server = answers_of(url)
    requests = summary["requests"]["openai:fake"]
    used = sum(round(row["finished"] * (row["mean_rounds"] or 0)) for row in summary["results"])
    return Figures(
        planned=summary["planned"],
        finished=summary["finished"],
        seconds=round(seconds, 1),
        requests=sum(server.values()),
        thrown_away=server["ok"] - used,
        server=server,
        resent=requests["resent"],
    )


def play_inspect(options: Flaky, faults: Faults, turns: int) -> Figures:
    """Let inspect-ai hold as many conversations of as many turns."""
    assert options.inspect is not None
    samples = options.conversations
    with fake_server(faults) as url, tempfile.TemporaryDirectory() as folder:
        words = (url, samples, turns, options.max_requests, options.inspect_timeout, folder)
        done = subprocess.run(
            [str(options.inspect), str(_INSPECT), *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        server = answers_of(url)
    return Figures(
        planned=samples,
        finished=figures["finished"],
        seconds=round(figures["seconds"], 1),
        requests=sum(server.values()),
        thrown_away=server["ok"] - figures["turns"],
        server=server,
        resent={},
    )


def _seconds(log: Path) -> float:
    """Seconds between the events that say when a run was started and ended."""
    times: dict[str, datetime] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        times[event["event"]] = datetime.fromisoformat(event["timestamp"])
    return (times["run ended"] - times["run started"]).total_seconds()


def main(argv: list[str] | None = None) -> int:
    """Measure, print and write; returns 0."""
    options = tyro.cli(Flaky, prog="python -m benchmark.policy.flaky", args=argv)
    manifest = read_manifest().as_json()
    rows: dict[str, list[Figures]] = {name: [] for name, _ in _SERVERS}
    for _ in range(options.pairs):
        for name, faults in _SERVERS:
            rows[name].append(play(options, faults))
        _write(options.out, manifest, rows)
    if options.inspect is not None:
        first = rows["faultless"][0]
        turns = round(first.server["ok"] / first.planned)
        for name, faults in _SERVERS:
            rows[f"inspect-ai, {name}"] = [play_inspect(options, faults, turns)]
        _write(options.out, manifest, rows)
    console = Console()
    console.print(_table(rows))
    ratios = ", ".join(map(str, _ratios(rows)))
    console.print(f"hosted / faultless: {median(_ratios(rows)):.3f} of the time ({ratios})")
    return 0


def _ratios(rows: Mapping[str, Sequence[Figures]]) -> list[float]:
    """The seconds beside the hosted server over those of the run before it."""
    pairs = zip(rows["faultless"], rows["hosted"], strict=True)
    return [round(hosted.seconds / faultless.seconds, 3) for faultless, hosted in pairs]


def _table(rows: Mapping[str, Sequence[Figures]]) -> Table:
    table = Table("server", "finished", "seconds", "requests", "thrown away", "sent again")
    for name, row in ((name, row) for name, runs in rows.items() for row in runs):
        share = 100 * row.thrown_away / row.requests
        table.add_row(
            name,
            f"{row.finished} of {row.planned}",
            f"{row.seconds:.1f}",
            str(row.requests),
            f"{row.thrown_away} ({share:.2f} %)",
            ", ".join(f"{reason} {count}" for reason, count in row.resent.items()) or "-",
        )
    return table


def _write(out: Path, manifest: Mapping[str, Any], rows: Mapping[str, Sequence[Figures]]) -> None:
    ratios = _ratios(rows)
    document = {
        "manifest": manifest,
        "ratio": round(median(ratios), 3),
        "ratios": ratios,
        "rows": {name: [asdict(row) for row in runs] for name, runs in rows.items()},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
