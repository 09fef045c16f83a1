"""llama.cpp's HTTP server, until standard input ends; prints its address.

    python llama_cpp_server.py MODEL.gguf THREADS SLOTS CONTEXT

Run by an interpreter that need have nothing but `xllamacpp`, which brings llama.cpp.
"""

from __future__ import annotations

import sys
from typing import Any


def main(gguf: str, threads: int, slots: int, context: int) -> None:
    """Serve a model with a slot of `context` tokens for each of `slots` episodes."""
    import xllamacpp  # pyright: ignore[reportMissingImports]

    params: Any = xllamacpp.CommonParams()
    params.model.path = gguf
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_parallel, params.n_ctx = slots, slots * context
    params.port, params.cache_ram_mib = 0, 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], *(int(each) for each in sys.argv[2:5]))
