"""OpenEnv's protocol: environments for its clients, and for trainers that use them.

messages.py      requests as pydantic reads them, answers, and errors with OpenEnv's codes
session.py       the episodes of one client, one after the other: reset, step, state
tools.py         tools over JSON-RPC
conversation.py  a WebSocket: each answer belongs to its request, also when it comes too late
application.py   the routes as an ASGI application
"""
