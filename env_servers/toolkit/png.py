"""PNG files of few colours, the same bytes on every machine.

State hashes cover images, and what a deflate library makes of equal pixels differs from version to
version. So nothing is compressed here; stores and streams compress, or have room.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

__all__ = ["encode_png"]

_STORED: Final = 0xFFFF
"""Most bytes of a block that is not compressed."""


def encode_png(width: int, pixels: bytes, palette: bytes) -> bytes:
    """Return a PNG.

    Args:
        width: Pixels in a row.
        pixels: A byte for each, row by row: its place in the palette.
        palette: Red, green and blue of 1 to 256 colours.

    Raises:
        ValueError: The pixels are no rows of that width, or the palette is none.
    """
    if width < 1 or not pixels or len(pixels) % width:
        raise ValueError(f"{len(pixels)} pixels are no rows of {width}")
    if not palette or len(palette) % 3 or len(palette) > 3 * 256:
        raise ValueError(f"{len(palette)} bytes are no palette of 1 to 256 colours")
    header = struct.pack("!IIBBBBB", width, len(pixels) // width, 8, 3, 0, 0, 0)
    # Each row is preceded by its filter: none.
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", _stored(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _stored(data: bytes) -> bytes:
    """Return a zlib stream that holds data as it is."""
    blocks: list[bytes] = []
    for start in range(0, len(data), _STORED):
        block = data[start : start + _STORED]
        last = start + _STORED >= len(data)
        blocks.append(struct.pack("<BHH", last, len(block), len(block) ^ _STORED) + block)
    return b"\x78\x01" + b"".join(blocks) + struct.pack("!I", zlib.adler32(data))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
