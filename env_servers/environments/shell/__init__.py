"""Files and a shell: commands run in a sandbox, and what they leave is checked."""

from env_servers.environments.shell.environment import ShellEnvironment

environment = ShellEnvironment

__all__ = ["ShellEnvironment", "environment"]
