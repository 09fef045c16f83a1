r"""Published questions and passages: where their files lie, how they are read, what damage is.

Two layouts below `DATA/searchqa/`, which can stand side by side:

    FlashRAG    nq/test.jsonl, ..., hotpotqa/train.jsonl   {"id", "question", "golden_answers"}
                wiki-18.jsonl or corpus.jsonl              {"id", "contents": "title\ntext"}
    HotpotQA    hotpotqa_<any>.json                        [{"question", "answer", "context", ...}]
                hotpotqa_<any>_corpus.json                 {title: [sentence, ...]}

Every `.jsonl` may be gzipped (`.jsonl.gz`). Owns AgentGym's numbering of the published questions.
Invariant: a file that is cut off, damaged or incomplete is never played in part: it is refused with
file, line and field. It knows neither retrievers nor episodes.
"""

from __future__ import annotations

import gzip
import json
import mmap
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, overload

from env_servers.environments.searchqa.passages import Passage, from_contents
from env_servers.environments.searchqa.questions import Clue, Question
from env_servers.sdk import EnvironmentUnavailable

__all__ = [
    "DATASETS",
    "FOLDER",
    "PUBLISHED",
    "DamagedData",
    "Published",
    "find_corpus",
    "hotpot_files",
    "hotpot_passages",
    "hotpot_questions",
    "read_corpus",
    "read_questions",
]

FOLDER: Final = "searchqa"
CORPORA: Final = ("wiki-18", "corpus")
"""Names of passage files, the first found counts."""
MAX_CORPUS_BYTES: Final = 2 * 2**30
"""Larger corpora need a retrieval server: the built-in index is held in memory."""
_ENDINGS: Final = (".jsonl", ".jsonl.gz")
_HOTPOT: Final = "hotpotqa_*.json"
_HOTPOT_CORPUS: Final = "_corpus"
_LONGEST_QUERY: Final = 400
HELP: Final = (
    "Question files are those of the dataset RUC-NLPIR/FlashRAG_datasets, the passages those of "
    "PeterJinGo/wiki-18-corpus, both on Hugging Face. Without the folder the embedded world is "
    "played, which needs no download."
)


@dataclass(frozen=True, slots=True)
class Published:
    """A published question set and the item indexes that AgentGym gave it."""

    dataset: str
    split: str
    """Name of FlashRAG's file."""
    start: int
    size: int

    @property
    def train(self) -> bool:
        """Whether AgentGym trains on it."""
        return self.split == "train"


PUBLISHED: Final = (
    Published("nq", "test", 0, 3_610),
    Published("triviaqa", "test", 3_610, 11_313),
    Published("popqa", "test", 14_923, 14_267),
    Published("hotpotqa", "dev", 29_190, 7_405),
    Published("2wikimultihopqa", "dev", 36_595, 12_576),
    Published("musique", "dev", 49_171, 2_417),
    Published("bamboogle", "test", 51_588, 125),
    Published("nq", "train", 51_713, 79_168),
    Published("hotpotqa", "train", 130_881, 90_447),
)
"""AgentGym's indexes; the test sets first."""
DATASETS: Final = tuple(dict.fromkeys(published.dataset for published in PUBLISHED))
"""Names that AgentEval's item ids begin with."""


class DamagedData(EnvironmentUnavailable):
    """When a file of official data cannot be used; says which, where, and what to do."""

    def __init__(self, path: Path, problem: str, *, line: int = 0, field: str = "") -> None:
        self.path, self.line, self.field = path, line, field
        unit = "question" if path.suffix == ".json" else "line"
        where = f", {unit} {line:,}" if line else ""
        where += f", field {field!r}" if field else ""
        super().__init__(f"{path}{where}: {problem}. Fetch the file again. {HELP}")


# ---------------------------------------------------------------------- FlashRAG


def read_questions(folder: Path, published: Published) -> list[Question] | None:
    """Return a published question set, or None where its file is not there.

    Raises DamagedData, also for a file of another number of questions than AgentGym numbered.
    """
    path = _existing(folder / published.dataset / published.split)
    if path is None:
        return None
    questions = [
        Question(
            _text(row, "question", path, line),
            _answers(row, path, line),
            _question_clue(_text(row, "question", path, line)),
            published.dataset,
        )
        for line, row in _rows(path)
    ]
    if len(questions) != published.size:
        problem = f"has {len(questions):,} of the {published.size:,} published questions"
        raise DamagedData(path, f"{problem}: it is cut off, or another version")
    return questions


def _existing(stem: Path) -> Path | None:
    paths = (stem.with_name(stem.name + ending) for ending in _ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def _question_clue(question: str) -> tuple[Clue, ...]:
    """Nobody says which passage answers a published question: a searcher can ask it as it is."""
    return (
        Clue(
            "",
            (_query(question),),
            "what the question asks for",
            "a passage names what is asked for",
        ),
    )


def _query(text: str) -> str:
    """Words to search for, as a reply would carry them."""
    return " ".join(text.replace("<", " ").replace(">", " ").split())[:_LONGEST_QUERY].strip()


def _answers(row: Mapping[str, Any], path: Path, line: int) -> tuple[str, ...]:
    field = "golden_answers"
    value = row.get(field)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise DamagedData(path, "is no list of answers", line=line, field=field)
    if not all(isinstance(answer, str) for answer in cast("list[object]", value)):
        raise DamagedData(path, "has an answer that is no text", line=line, field=field)
    return tuple(cast("list[str]", value))


def _text(row: Mapping[str, Any], field: str, path: Path, line: int) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise DamagedData(path, "is missing or no text", line=line, field=field)
    return value


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line numbers and objects of a `.jsonl`, gzipped or not; blank lines are skipped."""
    line = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line, content in enumerate(file, start=1):
                if content.strip():
                    yield line, _row(content, path, line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"is cut off or no gzip file ({error})"
        raise DamagedData(path, problem, line=line + 1) from error
    except OSError as error:
        raise DamagedData(path, f"cannot be read ({error})", line=line) from error


def _row(content: bytes, path: Path, line: int) -> Mapping[str, Any]:
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        whole = content.endswith(b"\n")
        problem = "is no JSON" if whole else "ends in the middle of a line: the file is cut off"
        raise DamagedData(path, f"{problem} ({error})", line=line) from error
    if not isinstance(row, dict):
        raise DamagedData(path, "is no JSON object", line=line)
    return cast("dict[str, Any]", row)


# ---------------------------------------------------------------------- passages


def find_corpus(folder: Path) -> Path | None:
    """Return the passage file, where there is one."""
    candidates = (_existing(folder / name) for name in CORPORA)
    return next((path for path in candidates if path is not None), None)


def read_corpus(path: Path) -> Sequence[Passage]:
    """The passages of a file; those of a plain file stay in it, and 8 bytes of each are held.

    Raises DamagedData, and EnvironmentUnavailable for a file that only a retrieval server can hold.
    """
    if path.stat().st_size > MAX_CORPUS_BYTES:
        raise EnvironmentUnavailable(
            f"{path} is too large for the built-in index, which is held in memory "
            f"(limit {MAX_CORPUS_BYTES >> 30} GiB). Serve it with a retrieval server that speaks "
            "Search-R1's protocol and say --set searchqa.retriever=http://HOST:PORT/retrieve"
        )
    if path.suffix == ".gz":
        passages = [_passage(row, path, line) for line, row in _rows(path)]
    else:
        passages = _PassageFile(path)
    _require_distinct(path, passages)
    return passages


def _require_distinct(path: Path, passages: Sequence[Passage]) -> None:
    seen: set[str] = set()
    for number, passage in enumerate(passages, start=1):
        if passage.id in seen:
            raise DamagedData(path, f"passage {number:,} has the id of an earlier one", field="id")
        seen.add(passage.id)
    if not seen:
        raise DamagedData(path, "has no passages")


def _passage(row: Mapping[str, Any], path: Path, line: int) -> Passage:
    identifier = row.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        raise DamagedData(path, "is missing or no id", line=line, field="id")
    if "contents" in row:
        return from_contents(str(identifier), _text(row, "contents", path, line))
    title, text = _text(row, "title", path, line), _text(row, "text", path, line)
    return Passage(str(identifier), f'"{title}"', text)


class _PassageFile(Sequence[Passage]):
    """Passages that stay in their file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        where = 0
        with path.open("rb") as file:
            for line, content in enumerate(file, start=1):
                if content.strip():
                    _passage(_row(content, path, line), path, line)
                    self._starts.append(where)
                where += len(content)
            if not where:
                raise DamagedData(path, "is empty")
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        start = self._starts[index]
        end = self._file.find(b"\n", start)
        content = self._file[start : end if end >= 0 else len(self._file)]
        return _passage(_row(content, self._path, index + 1), self._path, index + 1)


# ---------------------------------------------------------------------- HotpotQA


def hotpot_files(folder: Path) -> list[Path]:
    """Question files in HotpotQA's own format, in the order of their names."""
    paths = (path for path in folder.glob(_HOTPOT) if not path.stem.endswith(_HOTPOT_CORPUS))
    return sorted(path for path in paths if path.is_file())


def hotpot_questions(path: Path) -> list[Question]:
    """Return the questions of a file; raises DamagedData."""
    questions: list[Question] = []
    for number, row in enumerate(_records(path), start=1):
        text = _text(row, "question", path, number)
        answer = _text(row, "answer", path, number)
        clues = _hotpot_clues(text, row, path, number)
        category = str(row.get("type") or "hotpotqa")
        questions.append(Question(text, (answer,), clues, category))
    return questions


def _hotpot_clues(
    question: str, row: Mapping[str, Any], path: Path, row_number: int
) -> tuple[Clue, ...]:
    """Return the passages that are named as support, each with the sentence that supports."""
    field = "supporting_facts"
    try:
        pairs = cast("list[Any]", row.get(field) or [])
        facts = {str(title): int(number) for title, number in reversed(pairs)}
    except (TypeError, ValueError) as error:
        raise DamagedData(path, "is no list of pairs", line=row_number, field=field) from error
    context = _context(row)
    return tuple(
        Clue(
            title=f'"{title}"',
            queries=(_query(title), _query(f"{title} {question}")),
            aim=f"what is said about {title}",
            finding=_finding(title, context.get(title, ()), number),
        )
        for title, number in reversed(facts.items())
    ) or _question_clue(question)


def _context(row: Mapping[str, Any]) -> dict[str, Sequence[object]]:
    """Sentences by title as far as they can be read; damage matters where passages are read."""
    pairs = row.get("context")
    if not isinstance(pairs, list):
        return {}
    return {
        str(pair[0]): pair[1]
        for pair in cast("list[Any]", pairs)
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list)
    }


def _finding(title: str, sentences: Sequence[object], number: int) -> str:
    if not 0 <= number < len(sentences):
        return f"there is a passage on {title}"
    sentence = str(sentences[number]).strip()[:_LONGEST_QUERY].rstrip(".")
    return f'the passage on {title} has the sentence "{sentence}"'


def hotpot_passages(paths: Sequence[Path]) -> list[Passage]:
    """Return the passages beside question files, or those that the questions carry; titles once."""
    texts: dict[str, str] = {}
    for path in paths:
        corpus = path.with_name(f"{path.stem}{_HOTPOT_CORPUS}.json")
        pairs = _corpus_pairs(corpus) if corpus.is_file() else _context_pairs(path)
        for title, sentences in pairs:
            texts.setdefault(title, "".join(sentences).strip())
    return [
        Passage(f"{number:08d}", f'"{title}"', text)
        for number, (title, text) in enumerate(texts.items())
    ]


def _corpus_pairs(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    content = _document(path)
    if not isinstance(content, dict):
        raise DamagedData(path, "is no JSON object from title to sentences")
    for title, sentences in cast("dict[str, Any]", content).items():
        yield title, _sentences(sentences, path, title)


def _context_pairs(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    for number, row in enumerate(_records(path), start=1):
        try:
            for title, sentences in row["context"]:
                yield str(title), _sentences(sentences, path, str(title))
        except (KeyError, TypeError, ValueError) as error:
            problem = "is missing or no list of passages"
            raise DamagedData(path, problem, line=number, field="context") from error


def _sentences(value: Any, path: Path, title: str) -> Sequence[str]:
    whole = isinstance(value, list) and all(isinstance(s, str) for s in cast("list[Any]", value))
    if not whole:
        raise DamagedData(path, f"passage {title!r} is no list of sentences")
    return cast("list[str]", value)


def _records(path: Path) -> list[Mapping[str, Any]]:
    content = _document(path)
    if not isinstance(content, list):
        raise DamagedData(path, "is no JSON list of questions")
    records = cast("list[Any]", content)
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise DamagedData(path, f"question {number:,} is no JSON object")
    return records


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedData(path, f"is cut off or no JSON ({error})") from error
    except OSError as error:
        raise DamagedData(path, f"cannot be read ({error})") from error
