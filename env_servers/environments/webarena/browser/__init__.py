"""A real browser: its start and its end, the windows of episodes, their network and their tabs."""
