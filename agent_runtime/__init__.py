"""One agent playing one episode: client, conversation, token ledger, policies."""

import os

# Set here, although an import should change nothing: gRPC's core reads both when `grpc` is
# imported, and every command of this project imports this package before it. Without the first,
# each server process that uvloop starts prints a line of gRPC's fork handlers into the middle of
# the progress bar; without the second, so does each server that goes away. Nothing here forks
# without exec. Whoever sets them otherwise is left alone.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
