"""Gateways: the protocols that people already speak, in front of any fleet of environment servers.

A gateway is a *client* of environments. This package alone of `env_servers` may import the client
side (`agent_runtime`, `orchestrator`), and it reaches environments only over gRPC: any server in
any language may be behind it. One process serves one protocol:

    python -m env_servers gateway agentgym textcraft maze     AgentGym's HTTP routes
    python -m env_servers gateway mcp maze                    MCP, over HTTP or stdio
    python -m env_servers gateway openenv maze                OpenEnv's WebSocket and HTTP
    python -m env_servers gateway rest maze                   JSON for curl and browsers

What gateways share, from below:

    errors.py     what went wrong, for people and programs: `Problem`
    backend.py    a fleet of servers, and episodes on it: `Backend`, `HeldEpisode`
    leases.py     ids that clients hold episodes by, and when an unused one is closed: `Leases`
    sessions.py   the episodes of clients that are asked for by functions: `Sessions`, `Environment`
    messages.py   what those clients say: `Action`, `Reset`
    access.py     who may ask, how much, and that no traceback leaves: `Access`
    options.py    flags: those of all gateways, and of each kind
    serving.py    from flags to a server that ends in order

A new gateway is a class that `serving.Gateway` describes, made of a `Backend` (see
`agentgym/application.py`), its flags in `options.py`, and a line in `env_servers/cli/gateway.py`.
"""
