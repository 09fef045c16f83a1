"""The encyclopedia: articles about towns, people, works and nature of an invented world."""

from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.wiki.content import build
from env_servers.environments.webarena.sites.wiki.pages import WIKI

__all__ = ["ARTICLES", "WIKI", "Article", "build"]
