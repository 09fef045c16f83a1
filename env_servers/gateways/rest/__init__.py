"""JSON over HTTP/1.1: environments for curl, browsers and whoever has no gRPC.

messages.py      the contract's messages as JSON, and problems as RFC 9457 has them
episodes.py      episodes as addresses: reset, step, fork, views, journal, events
calls.py         the contract's unary calls by their names, as the Connect protocol has them
description.py   the OpenAPI description, made of the messages themselves, and a page for people
application.py   all of it as an ASGI application
"""
