"""The forum: forums, posts, comments, votes, subscriptions, people, messages."""

from env_servers.environments.webarena.sites.forum import reading, writing
from env_servers.environments.webarena.sites.forum.frame import FORUM

__all__ = ["FORUM", "reading", "writing"]
