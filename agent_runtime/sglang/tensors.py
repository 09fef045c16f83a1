"""Weights in memory, in buckets: nothing is written to a disk.

Owns the form that SGLang's /update_weights_from_tensor reads, for an engine on this machine: per
bucket, a list of (name, tensor) in which a tensor is a handle of shared memory, or of CUDA memory.
Tensors must stay as they are until the engine has answered; it copies them then. Knows no engine
and no network; needs torch.
"""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Iterator, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["WeightTensors"]

_BUCKET_BYTES: Final = 1 << 30
_strategy = threading.Lock()
"""How handles are made is a setting of the process."""


class WeightTensors:
    """Named tensors of a checkpoint's layout (the names of its safetensors files)."""

    def __init__(self, tensors: Mapping[str, Tensor], *, bucket_bytes: int = _BUCKET_BYTES) -> None:
        """`bucket_bytes` bounds what one request hands over. Raises ValueError without tensors."""
        if not tensors:
            raise ValueError("there are no tensors: give the model's state_dict")
        if bucket_bytes < 1:
            raise ValueError("bucket_bytes is at least 1")
        self._tensors = dict(tensors)
        self._bucket_bytes = bucket_bytes

    def buckets(self) -> Iterator[list[tuple[str, Tensor]]]:
        """Names and tensors, as many as a request may hand over; a larger one stands alone."""
        bucket: list[tuple[str, Tensor]] = []
        size = 0
        for name, tensor in self._tensors.items():
            length = tensor.numel() * tensor.element_size()
            if bucket and size + length > self._bucket_bytes:
                yield bucket
                bucket, size = [], 0
            bucket.append((name, tensor.detach().contiguous()))
            size += length
        yield bucket

    def payloads(self, ranks: int = 1) -> Iterator[list[str]]:
        """Per bucket, one text for each of the engine's tensor-parallel ranks.

        Made when it is asked for; a handle is good for one reader.
        """
        for bucket in self.buckets():
            yield [_handles(bucket) for _ in range(ranks)]


def _handles(bucket: list[tuple[str, Tensor]]) -> str:
    import torch.multiprocessing

    sharing: Any = torch.multiprocessing  # its functions carry no types
    if all(tensor.device.type == "cpu" for _, tensor in bucket):
        # A storage that is shared stays so: the trainer's own is left alone.
        bucket = [(name, tensor.clone()) for name, tensor in bucket]
    buffer = io.BytesIO()
    with _strategy:
        # The engine is no child of this process: file descriptors cannot be handed to it.
        before = sharing.get_sharing_strategy()
        sharing.set_sharing_strategy("file_system")
        try:
            ForkingPickler(buffer).dump(bucket)
        finally:
            sharing.set_sharing_strategy(before)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
