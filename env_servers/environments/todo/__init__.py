"""TODOList: questions and changes in a to-do account."""

from env_servers.environments.todo.environment import Todo

environment = Todo

__all__ = ["Todo", "environment"]
