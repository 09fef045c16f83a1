"""The judges that a server can be given, by the settings `judge.*`."""

from env_servers.toolkit.judges.settings import judge_of

__all__ = ["judge_of"]
