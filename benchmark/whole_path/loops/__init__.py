"""Other harnesses' own loops over TextCraft: what the whole path is compared with.

Each module is a command that plays every task of a file of replies so many times, on nothing but
that harness and the environment, and writes what came out (`script.Outcome`).
"""
