"""Models, batches, optimizer steps and the processes that share them."""
