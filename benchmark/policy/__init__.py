"""Measuring policies: `python -m benchmark.policy`."""
