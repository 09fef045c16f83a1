"""Tasks, the runs that play them, and what they measured."""
