"""A compact inference engine that generates for many episodes at once in this process.

    config.py         what a user may set
    generation.py     a request and its result
    randomness.py     one random number per (seed, position)
    scheduling.py     continuous batching: cache slots, prefixes, what the next step computes
    grouping.py       which rows are attended to together
    layout.py         a step's tokens as lists and padded rectangles
    checkpoint.py     config.json, weight files, the weights' version
    parameters.py     which of a checkpoint's tensors become one matrix
    memory.py         how much memory a cache may take
    backend.py        the interface to a model's arithmetic, and the choice of an implementation
    engine.py         InferenceEngine: one step after the other; weight updates
    worker.py         EngineThread: the thread that steps, and how coroutines reach it
    http_messages.py  SGLang's requests and replies
    http_server.py    the engine behind SGLang's HTTP interface

    torch_backend.py  with llama.py (weights and forward pass), linear.py (matrices in the order
                      that is fastest), attention.py (on CPUs) and sampler.py (from logits to
                      tokens): every size, CPU or GPU; extra `torch`
    numpy_backend.py  with llama_numpy.py, sampler_numpy.py and tensor_file.py (safetensors): small
                      models on a CPU; extra `agent`

Only a backend imports torch or NumPy, when an engine is made that uses it.
"""

from agent_runtime.engine.generation import GenerationRequest, GenerationResult

__all__ = ["GenerationRequest", "GenerationResult"]
