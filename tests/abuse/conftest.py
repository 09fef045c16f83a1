"""Attacks run against servers in processes of their own, whose memory is bounded."""

from tests.env_servers.server.conftest import server_process

__all__ = ["server_process"]
