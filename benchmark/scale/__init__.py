"""A model of scale: what a cluster of any size would do with a run.

A discrete-event simulation drives the real `orchestrator.scheduler.Scheduler` and
`orchestrator.leases.Leases` by the driver's own rules (`orchestrator.ray_cluster.rations`) under a
virtual clock, with costs that other benchmarks measured (`inputs.toml`).

    python -m benchmark.scale.driver        what a message and an episode cost a driver
    python -m benchmark.scale.validation    real runs on 1, 2 and 4 raylets beside their prediction
    python -m benchmark.scale               the table from 1 to 1,000 nodes
"""
