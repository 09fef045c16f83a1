"""Attacks that were tried on the running system, each bounded in time, memory and traffic."""
