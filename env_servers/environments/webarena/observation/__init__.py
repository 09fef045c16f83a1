"""What the agent is shown of a page: pure functions of what the browser reports."""
