"""From recorded conversations and episodes to token sequences; knows no model weights."""
