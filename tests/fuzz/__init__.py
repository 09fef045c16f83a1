"""Fuzzing: what arrives from outside may be refused, by an error of its kind, and nothing else.

Each target of `targets` is a Hypothesis test with three drivers: the suite (a few examples, always
the same ones), a time budget, and coverage-guided atheris where it is installed:

    python -m tests.fuzz --seconds 60 [--engine atheris] [TARGET ...]
"""
