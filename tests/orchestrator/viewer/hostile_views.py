"""An environment whose pictures try all that a page of a stranger's can try."""

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, MediaType, View

OWNED = "top.owned = window.owned = 1; document.title = 'owned'"
ELSEWHERE = "http://elsewhere.invalid"
HTML = f"""<!doctype html><html><head><title>page</title>
<meta http-equiv="refresh" content="0; url={ELSEWHERE}/refresh">
<link rel="stylesheet" href="{ELSEWHERE}/style.css"><base href="{ELSEWHERE}/">
<script>{OWNED}; fetch('{ELSEWHERE}/fetched')</script></head>
<body onload="{OWNED}"><p>a page</p><img src="{ELSEWHERE}/a.png" onerror="{OWNED}">
<img src="data:,none" onerror="{OWNED}"><svg onload="{OWNED}"></svg>
<iframe src="{ELSEWHERE}/frame"></iframe><iframe srcdoc="<script>{OWNED}</script>"></iframe>
<form action="{ELSEWHERE}/form"><button id="send">send</button></form>
<a id="away" target="_top" href="{ELSEWHERE}/away">away</a>
<a id="script" href="javascript:{OWNED}">script</a></body></html>"""
SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" width="40" height="20"
onload="{OWNED}"><script>{OWNED}</script><rect width="40" height="20" fill="red"/>
<image href="{ELSEWHERE}/image.png" width="9" height="9"/><foreignObject width="9" height="9">
<img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="{OWNED}"/></foreignObject></svg>"""


class HostileViews(EchoEnvironment):
    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="hostile_views")

    def render(self) -> list[View]:
        text = f"<script>{OWNED}</script> \x1b[31m\u202egnp"
        return [
            View("page", f"<b>{OWNED}", MediaType.HTML, HTML.encode()),
            View("drawing", "drawing", MediaType.SVG, SVG.encode()),
            View("broken", "broken", MediaType.PNG, SVG.encode()),
            View("words", "words", MediaType.TEXT, text.encode()),
            View("data", "data", MediaType.JSON, text.encode()),
        ]


environment = HostileViews
