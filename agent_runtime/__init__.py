"""One agent playing one episode: client, conversation, token ledger, policies."""
