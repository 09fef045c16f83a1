"""Environments served over gRPC: the author's SDK, the server runtime, and one package each."""

import os

# Set here, although an import should change nothing: gRPC's core reads it when `grpc` is imported.
# With gRPC's fork handlers a worker that a server starts can die of a segmentation fault between
# fork and exec. Nothing here forks without exec. Whoever sets it otherwise is left alone.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
