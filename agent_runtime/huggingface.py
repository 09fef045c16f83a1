"""Chat templates and tokenizers in the Hugging Face layout, without `transformers`.

Reads `tokenizer.json`, `tokenizer_config.json` and the chat template of a model
folder (or of a repository on the hub), and renders templates in jinja's sandbox with the names
that they expect. Equal files and an equal `today` give equal ids.

`tokenizers` and `jinja2` (extra `tokenizers`) are imported when a model is loaded, not before.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from agent_runtime.conversation import CHAT_ROLES, Message
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.models import resolve_model
from agent_runtime.rendering import Template, TemplateRenderer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as RustTokenizer

__all__ = ["HuggingFaceRenderer", "ModelTokenizer", "check_vocabulary", "load_renderer"]

_TEMPLATE_FILE = "chat_template.jinja"
_CONFIG_FILES = ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
_EXTRA = "tokenizers"
_LOOP_NUMBERS = frozenset({"first", "last", "index", "index0", "length"})
"""What jinja's `loop` tells as numbers and truth values: nothing that a template could misuse."""


class HuggingFaceRenderer(TemplateRenderer):
    """The chat template and tokenizer of one model."""

    def __init__(
        self,
        source: str | Path,
        *,
        chat_template: str | None = None,
        today: datetime.date | None = None,
    ) -> None:
        """Load a model folder, or the tokenizer files of a repository on the hub.

        `chat_template` replaces the model's own. Templates that print the date get `today`, by
        default the date on which the model is loaded; set it for runs that must repeat exactly.
        Raises PolicyMisconfigured where a file or the extra is missing or cannot be read.
        """
        folder = _folder(source)
        config = _settings(folder)
        tokenizer = ModelTokenizer(folder)
        template = chat_template if chat_template is not None else _template_of(folder, config)
        render = compile_template(
            template,
            special_tokens=_special_tokens(config),
            today=today or datetime.date.today(),
        )
        super().__init__(render, tokenizer, tokenizer.end_ids)


def load_renderer(
    source: str | Path, chat_template: Path | None, template_date: str | None
) -> HuggingFaceRenderer:
    """Load a model's renderer as its user set it.

    Args:
        source: Folder or hub name.
        chat_template: File that takes the place of the model's own template.
        template_date: YYYY-MM-DD for templates that print one; None = today.

    Raises:
        PolicyMisconfigured: A file, the date or the extra cannot be used.
    """
    try:
        template = None if chat_template is None else chat_template.read_text(encoding="utf-8")
        today = None if template_date is None else datetime.date.fromisoformat(template_date)
    except (OSError, ValueError) as error:
        raise PolicyMisconfigured(f"chat template or its date: {error}") from error
    return HuggingFaceRenderer(source, chat_template=template, today=today)


class ModelTokenizer:
    """A model's tokenizer, without its chat template; a `rendering.Tokenizer`."""

    def __init__(self, source: str | Path) -> None:
        """Load it from where `HuggingFaceRenderer` does, with the same errors."""
        folder = _folder(source)
        self._tokenizer = _load_tokenizer(folder)
        added = self._tokenizer.get_added_tokens_decoder()
        self._names = {token_id: token.content for token_id, token in added.items()}
        self._special = {token_id for token_id, token in added.items() if token.special}
        self.end_ids = self._end_ids(_settings(folder))
        """Ids that end a reply by the model's own configuration."""

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=add_special).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id where it stands, control tokens by their names.

        A character that several ids share shows as U+FFFD in each of them.
        """
        decode, found = self._tokenizer.decode, list[str]()
        alone: dict[tuple[int, ...], str] = {}
        for place, token_id in enumerate(ids):
            # By what it adds to the one before: some tokenizers drop the first space of a text.
            both = (*ids[place - 1 : place], token_id) if place else (token_id,)
            for key in ((token_id,), both[:1], both):
                if key not in alone:
                    alone[key] = decode(list(key), skip_special_tokens=False)
            whole, before = alone[both], alone[both[:1]]
            found.append(
                whole[len(before) :] if place and whole.startswith(before) else alone[(token_id,)]
            )
        return found

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special

    def special_tokens(self) -> list[str]:
        """Return the control tokens as texts write them, in the order of their ids."""
        return [self._names[token_id] for token_id in sorted(self._special)]

    def _end_ids(self, config: Mapping[str, Any]) -> list[int]:
        listed = config.get("eos_token_id")
        ids = cast("list[object]", listed if isinstance(listed, list) else [listed])
        name = _special_tokens(config).get("eos_token")
        token_id = self._tokenizer.token_to_id(name) if name else None
        return [value for value in (token_id, *ids) if isinstance(value, int)]


def check_vocabulary(folder: Path) -> None:
    """Raise PolicyMisconfigured where the tokenizer has ids that the model has no row for.

    Such an id ends the whole engine.
    """
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tokenizer: dict[str, Any] = json.loads(
            (folder / "tokenizer.json").read_text(encoding="utf-8")
        )
        inner: dict[str, Any] = config.get("text_config") or config
        size = inner.get("vocab_size")
        vocabulary: Any = tokenizer["model"]["vocab"]
        vocabulary_ids: Iterable[int] = (
            cast("dict[str, int]", vocabulary).values()
            if isinstance(vocabulary, dict)
            else range(len(vocabulary))
        )
        added = [int(token["id"]) for token in tokenizer.get("added_tokens") or ()]
        highest = max([*vocabulary_ids, *added], default=-1)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise PolicyMisconfigured(f"{folder}: config or tokenizer: {error!r}") from error
    if isinstance(size, int) and highest >= size:
        raise PolicyMisconfigured(
            f"{folder}: the tokenizer has the id {highest}, the model {size} ids: they do not "
            "belong together"
        )


def compile_template(
    source: str, *, special_tokens: Mapping[str, str], today: datetime.date
) -> Template:
    """A jinja chat template as a function; raises PolicyMisconfigured where it does not parse."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.nodes
        import jinja2.parser
        import jinja2.runtime
        import jinja2.sandbox
    except ImportError:
        raise PolicyMisconfigured(
            f"chat templates need an extra: {install_command(_EXTRA)}"
        ) from None

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks what the model writes; it prints its body unchanged."""

        tags = {"generation"}

        def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
        # Templates ask for the numbers of their loop at each message: the sandbox's doubts about
        # them were more than half of a rendering.
        def getattr(self, obj: object, attribute: str) -> object:
            if type(obj) is jinja2.runtime.LoopContext and attribute in _LOOP_NUMBERS:
                return getattr(obj, attribute)
            return super().getattr(obj, attribute)

    environment = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _to_json  # pyright: ignore[reportUnknownMemberType]
    names = {**special_tokens, "raise_exception": _refuse, "strftime_now": today.strftime}
    try:
        template = environment.from_string(source, globals=names)
    except jinja2.TemplateError as error:
        raise PolicyMisconfigured(f"the chat template does not parse: {error}") from error

    def render(messages: Sequence[Message]) -> str:
        turns = [
            {"role": CHAT_ROLES[message.role], "content": message.text} for message in messages
        ]
        try:
            return template.render(messages=turns, add_generation_prompt=True)
        except (jinja2.TemplateError, TypeError, ValueError, LookupError) as error:
            raise PolicyMisconfigured(
                f"the chat template refuses the conversation: {error}"
            ) from error

    return render


def _refuse(message: str) -> NoReturn:
    """`raise_exception` of templates."""
    raise ValueError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    """Jinja's own `tojson` escapes for HTML, which would show in prompts."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _folder(source: str | Path) -> Path:
    """The local folder of a model; the tokenizer files of a hub repository are fetched."""
    folder = Path(resolve_model(source) if isinstance(source, str) else source)
    if folder.is_dir():
        return folder
    try:
        import huggingface_hub
    except ImportError:
        raise PolicyMisconfigured(
            f"{source} is no folder; fetching it from the hub needs an extra: "
            f"{install_command(_EXTRA)}"
        ) from None
    try:
        fetched = huggingface_hub.snapshot_download(  # pyright: ignore[reportUnknownMemberType]
            str(source), allow_patterns=["tokenizer.json", _TEMPLATE_FILE, *_CONFIG_FILES]
        )
    except (OSError, ValueError) as error:
        raise PolicyMisconfigured(f"cannot load the tokenizer of {source}: {error}") from error
    return Path(fetched)


def _settings(folder: Path) -> dict[str, Any]:
    """The configuration files as one mapping; the first file that has a key wins."""
    merged: dict[str, Any] = {}
    for name in _CONFIG_FILES:
        path = folder / name
        if not path.is_file():
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise PolicyMisconfigured(f"{path} is no JSON: {error}") from error
        if isinstance(document, dict):
            merged = {**cast("dict[str, Any]", document), **merged}
    return merged


def _load_tokenizer(folder: Path) -> RustTokenizer:
    try:
        import tokenizers
    except ImportError:
        raise PolicyMisconfigured(f"tokenizers are an extra: {install_command(_EXTRA)}") from None
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise PolicyMisconfigured(f"{folder} has no tokenizer.json")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:
        raise PolicyMisconfigured(f"cannot read {path}: {error}") from error


def _template_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The model's chat template: its own file, else the entry of tokenizer_config.json."""
    path = folder / _TEMPLATE_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    entry = config.get("chat_template")
    if isinstance(entry, list):
        named = cast("list[dict[str, str]]", entry)
        entry = next((item["template"] for item in named if item["name"] == "default"), None)
    if not isinstance(entry, str):
        raise PolicyMisconfigured(
            f"{folder} has no chat template, which says how a conversation becomes a prompt: put "
            f"the model's own there as {_TEMPLATE_FILE}, or name one with --embedded.chat-template "
            "or --sglang.chat-template"
        )
    return entry


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token` and the like, each as the text that templates print."""
    tokens: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = config.get(name)
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens
