"""A compact engine that generates for many episodes at once in this process.

    generation.py     what is asked and what comes back
    randomness.py     one number per (seed, token)
    scheduling.py     slots, prefixes, what the next step computes
    grouping.py       which rows are attended to together
    layout.py         a step's tokens as lists and rectangles
    checkpoint.py     config.json, which files hold the weights, their version
    parameters.py     which of a checkpoint's tensors become one matrix
    backend.py        what is to be computed, and by what
    engine.py         one step after the other; weight swaps
    worker.py         a thread that steps, and how coroutines reach it
    starting.py       from a folder to a worker
    wire.py           SGLang's request and reply
    front.py          the worker behind SGLang's HTTP interface

    torch_backend.py  with llama.py (weights and forward pass) and sampler.py (from logits to
                      tokens): every size, CPU or GPU; extra `torch`
    numpy_backend.py  with llama_numpy.py, sampler_numpy.py and tensor_file.py (safetensors): small
                      models on a CPU; extra `agent`

Only a backend imports torch or NumPy, when an engine is made that uses it.
"""

from agent_runtime.engine.generation import GenerationRequest, GenerationResult

__all__ = ["GenerationRequest", "GenerationResult"]
