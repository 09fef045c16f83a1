"""What a run costs from the orchestrator to the store, split by parts."""
