"""One page of all committed results, with plots: `python -m benchmark.report`, and in the docs."""
