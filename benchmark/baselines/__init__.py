"""What the throughput benchmark compares against: other systems' shapes, and ceilings.

One module per baseline, each with a server (`python -m benchmark.baselines.<name> --port N`) and
a client for `benchmark.load`. Every one is written as its original would be written by somebody
who wants it to be fast within that shape; its docstring lists the settings. They host an
environment and nothing else: no leases, no replay, no limits.
"""
