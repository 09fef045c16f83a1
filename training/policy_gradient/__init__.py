"""Learning from episodes by their rewards: what a recipe says, what is learned from, the update."""
