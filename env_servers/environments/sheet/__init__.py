"""Sheet: work on spreadsheets."""

from env_servers.environments.sheet.environment import SheetWork

environment = SheetWork

__all__ = ["SheetWork", "environment"]
