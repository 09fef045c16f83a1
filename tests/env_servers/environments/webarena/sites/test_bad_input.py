"""Whatever is asked of shop, administration, forum and home page: a page answers, never a fault."""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.wordlists import words

ACCOUNTS = {"shop": "17", "admin": "admin", "forum": MEMBER, "home": ""}
FIELDS = words(
    "q p id qty price[from] product_list_order price t by reviews ratings nickname title detail "
    "email password login[username] back name comment choice selected action status status_id "
    "created_at[from] grand_total[to] sort dir limit search from to period_type address "
    "customer_id street[0] city postcode telephone firstname lastname cart[1][qty] coupon_code "
    "order product[name] product[sku] product[price] discount_amount customer_group_ids "
    "simple_action submission[title] submission[forum] submission[url] forum[name] forum[title] "
    "forum[description] message[body] "
)
NUMBERS = st.sampled_from([0, 1, 17, 10**9, 10**30])
TEXTS = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "9" * 30, "2/30/2025", "1-2", "²", "%", "<b>", "books"]),
    st.text(max_size=12),
)
PAIRS = st.lists(st.tuples(st.sampled_from(FIELDS), TEXTS), max_size=6)


def routes(site: str) -> list[Route]:
    return [
        route for route in embedded_network().sites[site].app.routes if isinstance(route, Route)
    ]


def ask(site: str, data: st.DataObject) -> None:
    """Send one drawn request; a page must answer, and only a form may change a thing."""
    route = data.draw(st.sampled_from(routes(site)))
    path = route.path_format
    for name, convertor in route.param_convertors.items():
        is_number = convertor.regex == "[0-9]+"
        value = data.draw(NUMBERS if is_number else TEXTS)
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    network, world = embedded_network(), new_world()
    cookie = network.sign_in(world, site, ACCOUNTS[site]) if data.draw(st.booleans()) else None
    headers = {"cookie": f"{cookie.name}={cookie.value}"} if cookie is not None else {}
    sent, before = urlencode(data.draw(PAIRS)), world.digest()
    url = f"http://{site}.test{path}"
    if "POST" in (route.methods or ()):
        answer = asyncio.run(network.answer(world, "POST", url, headers, sent.encode()))
    else:
        answer = asyncio.run(network.answer(world, "GET", f"{url}?{sent}", headers))
        assert world.digest() == before
    assert answer.status in (200, 303, 403, 404, 405)


CALM = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}


@settings(max_examples=12, **CALM)
@given(data=st.data())
@pytest.mark.parametrize("site", ["shop", "admin", "forum"])
def test_no_request_is_a_fault(site: str, data: st.DataObject) -> None:
    ask(site, data)


@pytest.mark.slow
@settings(max_examples=120, **CALM)
@given(data=st.data())
@pytest.mark.parametrize("site", ACCOUNTS)
def test_none_of_many_requests_is_a_fault(site: str, data: st.DataObject) -> None:
    ask(site, data)


@pytest.mark.parametrize("body", [b"\xff\xfe=\x00", b"a=%ff&b=%zz", b"&" * 5000, b"=" * 50])
def test_a_form_that_is_no_form_is_read_as_far_as_it_goes(body: bytes) -> None:
    network, world = embedded_network(), new_world()
    url = "http://shop.test/customer/account/loginPost/"
    assert asyncio.run(network.answer(world, "POST", url, {}, body)).status == 303
