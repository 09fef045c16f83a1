"""The embedded web sites: server-side applications whose content each episode sees as its own.

Bottom up: `tables` (rows and the shared base), `world` (what one episode changed), `fields` (what a
client sent), `visit` (one request), `site` (routes and templates), `network` (hosts, and requests
answered in process), `serving` (the same on a port). Each site is a package beside these.
"""
