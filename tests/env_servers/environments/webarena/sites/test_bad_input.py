"""Whatever is sent to code hosting, the map or the encyclopedia, a page answers: never a fault."""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest
from starlette.routing import Route

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.git import ME
from env_servers.environments.webarena.sites.git.rows import PROJECTS
from tests.env_servers.environments.webarena.sites.browsing import Visitor

JUNK = (
    *("", "0", "-1", "99999999999999999999", "x" * 300, "a/b", "../..", "%", "{{ 7 }}", "<b>"),
    *("'", '"', "\x00", "\ud7ff", "é 中", "None", "2025-02-30", "1,1", "a in b", "main", ME),
)
FIELDS = (
    *("page", "sort", "state", "search", "query", "route_from", "route_to", "engine", "from"),
    *("title", "slug", "path", "name", "namespace", "users", "role", "labels", "assignees"),
    *("source", "target", "text", "note", "due", "start_date", "milestone", "visibility", "back"),
    *("label_name[]", "assignee_username", "scope", "language", "confirm", "remove", "readme"),
)


@pytest.mark.parametrize("site", ["git", "map", "wiki"])
def test_every_route_answers_whatever_is_sent(site: str) -> None:
    network, world, draw = embedded_network(), new_world(), random.Random(f"junk/{site}")
    visitor = Visitor(network, world, f"http://{site}.test/").signed_in("git", ME)
    project = world[PROJECTS].where(namespace=ME)[0]
    real = {"namespace": ME, "slug": project.slug, "rest": f"{project.branch}/README.md"}
    routes = [route for route in network.sites[site].app.routes if isinstance(route, Route)]
    assert routes
    for route in routes * 4:
        path = f"http://{site}.test{route.path}"
        for name in route.param_convertors:
            number = str(draw.randrange(12))
            junk = draw.choice(JUNK) if draw.random() < 0.3 else real.get(name, number)
            path = path.replace("{" + name + "}", quote(junk, safe="/"))
            for kind in ("int", "path"):
                path = path.replace("{" + f"{name}:{kind}" + "}", quote(junk, safe="/"))
        fields = {name: draw.choice(JUNK) for name in draw.sample(FIELDS, 12)}
        if "POST" in (route.methods or ()):
            visitor.post(path, **fields)
        else:
            query = "&".join(f"{quote(n)}={quote(v)}" for n, v in fields.items())
            visitor.get(f"{path}?{query[:2000]}")
        assert visitor.status in (200, 303, 403, 404, 405), (path, fields)
