"""Images of observations: as servers send them, models are shown them, and records keep them."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent_runtime.errors import ImagesNotTaken, ImageUnusable
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2

__all__ = [
    "IMAGE_TYPES",
    "MAX_RECORDED_BYTES",
    "Image",
    "RecordedImages",
    "require_texts",
    "shown_images",
]

IMAGE_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/webp"))
"""What an image may be: bitmaps, which models take and browsers show without running anything."""
MAX_RECORDED_BYTES: Final = 64 * 1024 * 1024
"""Of all images of an episode; records are read and written whole."""


class Image(NamedTuple):
    """One image of an observation."""

    media_type: str
    """One of `IMAGE_TYPES`."""
    content: bytes
    """The file; a stranger's."""

    @property
    def data_url(self) -> str:
        """The image as an address that holds it, for APIs and pages."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode()}"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return f'<img alt="observation" src="{html.escape(self.data_url, quote=True)}">'


def require_texts(images: Iterable[Image], player: str) -> None:
    """Raise ImagesNotTaken where there are images, for a player who would not be shown them."""
    if any(True for _ in images):
        raise ImagesNotTaken(player)


class RecordedImages:
    """The images of one record, each different one kept once."""

    def __init__(self, record: episode_pb2.Episode) -> None:
        """Go on with those that the record has."""
        self._record = record
        self._places: dict[Image, int] = {}
        self._bytes = 0
        for place, image in enumerate(record.images):
            self._note(Image(image.media_type, image.content), place)

    def places(self, images: Iterable[Image]) -> list[int]:
        """Return the places of images in the record, which gets those that it does not have.

        Raises ImageUnusable for what is no image, and where the record has no room for it.
        """
        return [self._place(image) for image in images]

    def _place(self, image: Image) -> int:
        place = self._places.get(image)
        if place is not None:
            return place
        if image.media_type not in IMAGE_TYPES:
            valid = ", ".join(sorted(IMAGE_TYPES))
            raise ImageUnusable(
                f"the environment gave an image of type {image.media_type!r:.100}; valid: {valid}"
            )
        if self._bytes + len(image.content) > MAX_RECORDED_BYTES:
            raise ImageUnusable(
                f"the images of this episode have more than {MAX_RECORDED_BYTES:,} bytes, which "
                "is what a record keeps: allow fewer rounds, or smaller images"
            )
        place = len(self._record.images)
        self._record.images.add(media_type=image.media_type, content=image.content)
        self._note(image, place)
        return place

    def _note(self, image: Image, place: int) -> None:
        self._places.setdefault(image, place)
        self._bytes += len(image.content)


def shown_images(
    part: episode_pb2.Message | episode_pb2.Step, images: Sequence[types_pb2.Image]
) -> tuple[Image, ...]:
    """Return the images of a message or step; `images` are its record's."""
    return tuple(Image(images[at].media_type, images[at].content) for at in part.images)
