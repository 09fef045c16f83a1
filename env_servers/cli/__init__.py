"""The commands of `python -m env_servers`: play, new, list, check and serve."""
