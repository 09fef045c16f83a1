"""Environments served over gRPC: the author's SDK, the server runtime, and one package each."""
