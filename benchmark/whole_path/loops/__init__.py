"""Other harnesses' own loops over an environment that is in their process: what the path is beside.

Each module is a command that plays every task of a file of replies so many times, on nothing but
that harness and the environment's class, and writes what came out (`script.Outcome`).
"""
