"""The client side of SGLang: its HTTP interface, its engines, and what they can bear.

    wire.py         a /generate request and its answer
    engines.py      the engines behind an address: load, aborts, weights
    health.py       which engines may serve
    concurrency.py  how many requests they are given at once
    tensors.py      weights handed over without a disk
    groups.py       weights sent through process groups

`agent_runtime.policies.sglang` is the policy that stands on it, `agent_runtime.serving` starts
such servers.
"""
