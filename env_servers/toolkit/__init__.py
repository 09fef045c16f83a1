"""What several environments share: tool calls, retrieval, and pens for views."""
