"""What other libraries' interfaces come to on ours: one small module for each, and an extra."""
