"""The embedded databases: their schemas, their rows, and templates of questions about them."""

from env_servers.environments.bird.domains.hospital import HOSPITAL
from env_servers.environments.bird.domains.league import LEAGUE
from env_servers.environments.bird.domains.library import LIBRARY
from env_servers.environments.bird.domains.railway import RAILWAY
from env_servers.environments.bird.domains.retail import RETAIL
from env_servers.environments.bird.domains.template import Domain, Level, Question, Template

__all__ = ["DOMAINS", "Domain", "Level", "Question", "Template"]

DOMAINS = (RETAIL, HOSPITAL, LIBRARY, RAILWAY, LEAGUE)
"""In the order of their item ids."""
