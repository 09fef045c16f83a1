"""What several environments share: tool calls and retrieval."""
