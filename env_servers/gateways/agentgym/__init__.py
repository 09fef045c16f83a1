"""AgentGym's HTTP routes in front of any fleet: its clients, and the trainers that use them, play.

The original has one server for each environment, and no common protocol: routes, names of fields
and what an error looks like differ. Each environment here answers as its own original does:

    requests.py        reading a request as FastAPI does, and refusing it in the same words
    environment.py     what all have in common: ids, tasks, the order of requests
    id_family.py       textcraft babyai sciworld alfworld maze wordle: `{"error": ...}` with 200
    index_family.py    webshop bird webarena searchqa and the tools: errors have status 500
    application.py     routes of one or several environments as an ASGI application

Facts are those of AgentGym at 3ef9235. `docs/how-to/gateways.md` lists what is different.
"""
