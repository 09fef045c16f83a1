"""SearchQA: answer questions with a search engine over passages, after Search-R1."""

from env_servers.environments.searchqa.environment import SearchQA

environment = SearchQA

__all__ = ["SearchQA", "environment"]
