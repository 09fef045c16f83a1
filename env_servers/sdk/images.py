"""Images of observations: what the agent itself sees beside the text.

What any image must be, so that it can be sent, recorded and handed to a model. They are part of
the game: state hashes cover them. Pictures for people, who may see more, are `sdk.views`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from xxhash import xxh3_128_digest

__all__ = [
    "MAX_IMAGES",
    "MAX_IMAGES_BYTES",
    "MAX_IMAGE_BYTES",
    "Image",
    "ImageType",
    "UnfitImage",
    "bytes_of",
    "proof_of",
    "require_fit",
]

MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
"""Of one image's content."""
MAX_IMAGES_BYTES: Final = 8 * 1024 * 1024
"""Of all images of an observation together."""
MAX_IMAGES: Final = 16
"""Of one observation."""


class ImageType(StrEnum):
    """What an image is: the bitmaps that models and browsers read alike."""

    PNG = "image/png"
    JPEG = "image/jpeg"
    WEBP = "image/webp"


_BEGINNINGS: Final[Mapping[str, bytes]] = {
    ImageType.PNG: b"\x89PNG\r\n\x1a\n",
    ImageType.JPEG: b"\xff\xd8\xff",
    ImageType.WEBP: b"RIFF",
}


class Image(NamedTuple):
    """One image of an observation."""

    media_type: ImageType
    content: bytes
    """The file."""


class UnfitImage(Exception):
    """Raised for images that cannot be sent; says which and why."""


def require_fit(images: Sequence[Image]) -> None:
    """Raise UnfitImage for more than an observation may have, and for what is no such image."""
    if len(images) > MAX_IMAGES:
        raise UnfitImage(f"{len(images)} images of an observation; at most {MAX_IMAGES}")
    for number, (media_type, content) in enumerate(images, 1):
        beginning = _BEGINNINGS.get(media_type)
        if beginning is None:
            valid = ", ".join(ImageType)
            raise UnfitImage(f"image {number} is {media_type!r:.100}; valid: {valid}")
        if not content.startswith(beginning):
            raise UnfitImage(f"image {number} says that it is {media_type}, and is not")
        if len(content) > MAX_IMAGE_BYTES:
            raise UnfitImage(
                f"image {number} has {len(content):,} bytes; at most {MAX_IMAGE_BYTES:,}"
            )
    size = bytes_of(images)
    if size > MAX_IMAGES_BYTES:
        raise UnfitImage(f"the images have {size:,} bytes together; at most {MAX_IMAGES_BYTES:,}")


def bytes_of(images: Sequence[Image]) -> int:
    """Return the bytes of all images together."""
    return sum(len(image.content) for image in images)


def proof_of(images: Sequence[Image]) -> bytes:
    """Return bytes that identify images, for state hashes; none for no images."""
    return b"".join(
        media_type.encode() + xxh3_128_digest(content) for media_type, content in images
    )
