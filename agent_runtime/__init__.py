"""One agent playing one episode: client, conversation, token ledger, policies."""

import os

# gRPC's core reads these once, when it is loaded. Nothing here forks without exec, so its fork
# handlers would only warn, on stderr, in the middle of a progress bar.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
