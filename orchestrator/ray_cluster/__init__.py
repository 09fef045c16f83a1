"""A run on a Ray cluster: environment servers and rollout workers as actors, one driver.

`messages` is what driver and workers say to each other, `worker` a worker and `server` a server,
neither of which knows Ray; `placement` says what belongs on which node; `driver` hands out work by
lease (`orchestrator.leases`); `cluster` alone imports Ray, when a run asks for it.
"""
