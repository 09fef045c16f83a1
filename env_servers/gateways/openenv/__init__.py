"""OpenEnv's protocol: environments for its clients, and for trainers that use them.

messages.py      bodies that only OpenEnv has, and errors with its codes
tools.py         tools over JSON-RPC
conversation.py  a WebSocket: each answer belongs to its request, also when it comes too late
application.py   the routes as an ASGI application
"""
