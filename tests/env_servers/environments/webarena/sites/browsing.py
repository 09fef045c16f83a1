"""A visitor without a browser: follows redirects, keeps cookies, fills in forms that pages have."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

from env_servers.environments.webarena.sites.network import Answer, Network
from env_servers.environments.webarena.sites.world import World


class Visitor:
    """What a browser does between a person and the sites, as far as forms and links need it."""

    def __init__(self, network: Network, world: World, start: str) -> None:
        self.network = network
        self.world = world
        self.url = start
        self.cookies: dict[tuple[str, str], str] = {}
        self.status = 0
        self.text = ""

    def signed_in(self, site: str, account: str) -> Visitor:
        cookie = self.network.sign_in(self.world, site, account)
        self.cookies[cookie.host, cookie.name] = cookie.value
        return self

    def get(self, path: str) -> Visitor:
        return self._request("GET", urljoin(self.url, path))

    def post(self, path: str, /, **fields: object) -> Visitor:
        pairs = [
            (name, value)
            for name, values in fields.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        return self._request("POST", urljoin(self.url, path), urlencode(pairs))

    def submit(self, action: str, /, **fields: object) -> Visitor:
        """Send the page's form whose action has a text, with these fields in place of its own."""
        forms = [form for form in Forms(self.text).forms if action in form.action]
        assert forms, f"no form with {action!r} among {[f.action for f in Forms(self.text).forms]}"
        form = forms[0]
        unknown = set(fields) - form.names
        assert not unknown, f"the form has no {unknown}, only {form.names}"
        values: dict[str, object] = {**form.values, **fields}
        target = urljoin(self.url, form.action or self.url)
        if form.method == "get":
            return self.get(f"{target.partition('?')[0]}?{urlencode(values, doseq=True)}")
        return self.post(target, **values)

    def _request(self, method: str, url: str, body: str = "") -> Visitor:
        for _ in range(10):
            answer = asyncio.run(self._answer(method, url, body))
            self.url, self.status, self.text = url, answer.status, answer.body.decode()
            location = answer.header("location")
            if location is None:
                return self
            method, url, body = "GET", urljoin(url, location), ""
        raise AssertionError(f"endless redirects at {url}")

    async def _answer(self, method: str, url: str, body: str) -> Answer:
        host = urlsplit(url).netloc
        cookie = "; ".join(
            f"{name}={value}" for (at, name), value in self.cookies.items() if at == host
        )
        headers = {"cookie": cookie, "content-type": "application/x-www-form-urlencoded"}
        answer = await self.network.answer(self.world, method, url, headers, body.encode())
        for name, value in answer.headers:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                text = rest.partition(";")[0]
                if "Max-Age=0" in value:
                    self.cookies.pop((host, key), None)
                else:
                    self.cookies[host, key] = text.strip('"')
        return answer

    @property
    def path(self) -> str:
        parts = urlsplit(self.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")


class Form:
    def __init__(self, action: str, method: str) -> None:
        self.action = action
        self.method = method
        self.values: dict[str, list[str]] = {}
        self.names: set[str] = set()


class Forms(HTMLParser):
    """The forms and links of a page, with the values that a browser would send."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self._form: Form | None = None
        self._select: tuple[str, bool] | None = None
        self._area: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "form":
            self._form = Form(values.get("action", ""), values.get("method", "get").lower())
            self.forms.append(self._form)
        if self._form is not None:
            self._read_control(self._form, tag, values)

    def _read_control(self, form: Form, tag: str, values: dict[str, str]) -> None:
        name = values.get("name", "")
        if tag == "option":
            self._read_option(form, values)
            return
        if not name:
            return
        form.names.add(name)
        if tag == "input":
            kind = values.get("type", "text")
            if kind in ("checkbox", "radio"):
                if "checked" in values:
                    form.values.setdefault(name, []).append(values.get("value", "on"))
            elif kind not in ("submit", "button"):
                form.values.setdefault(name, []).append(values.get("value", ""))
        elif tag == "select":
            self._select = (name, "multiple" in values)
        elif tag == "textarea":
            self._area = name
            form.values[name] = [""]

    def _read_option(self, form: Form, values: dict[str, str]) -> None:
        if self._select is None:
            return
        name, multiple = self._select
        value = values.get("value", "")
        if "selected" in values:
            form.values[name] = [*(form.values.get(name, []) if multiple else []), value]
        elif not multiple:
            form.values.setdefault(name, [value])

    def handle_data(self, data: str) -> None:
        if self._area is not None and self._form is not None:
            self._form.values[self._area][0] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None
