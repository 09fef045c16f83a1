"""The library behind `import agentgym`: environments, episodes and vectors of episodes.

`aio` is the asynchronous form and does the work; `sync` is the same for programs without an event
loop. Servers are started where nobody names one, and shared by all who play the same here.
"""
