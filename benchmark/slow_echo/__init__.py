"""Echo environments that block, to measure what one of them costs its neighbours.

`sleeping` waits outside the GIL and declares `thread`; `computing` holds the GIL and declares
`process`. How long a step takes is a reset option of echo (`sleep_ms`, `spin_ms`).
"""
