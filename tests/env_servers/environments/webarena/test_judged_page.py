"""What is scored on a real page, and signing in through a site's own form, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("playwright", reason="needs the extra webarena")

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Answer, Door, Request
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browsing import Browsing
from env_servers.environments.webarena.evaluation import (
    OfflineJudge,
    PageFailed,
    Score,
    evaluate,
    read_criteria,
)
from env_servers.environments.webarena.judged_page import JudgedPage
from env_servers.environments.webarena.official import Account, Site, sign_in
from env_servers.environments.webarena.official.accounts import LoginRefused
from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.git import ME, PASSWORD
from env_servers.environments.webarena.sites.git.rows import PROJECTS
from env_servers.sdk import EnvironmentUnavailable
from tests.env_servers.environments.webarena.recorded import FileShop
from tests.kit.data import data_dir

HOST = "git.test"


@pytest.fixture
async def page() -> AsyncIterator[JudgedPage]:
    world, network = new_world(), embedded_network()

    async def respond(request: Request) -> Answer:
        headers = request.headers
        return await network.answer(world, request.method, request.url, headers, request.body)

    browser = SharedBrowser()
    try:
        try:
            window = await browser.open_window(Door({HOST}, respond))
        except EnvironmentUnavailable as error:
            pytest.skip(str(error))
        browsing = Browsing(window, Addresses({}), "Try it")
        await browsing.open([f"http://{HOST}/explore"])
        yield JudgedPage(browsing)
    finally:
        await browser.close()


async def score(page: JudgedPage, url: str, locator: str, expected: str) -> Score:
    target = {"url": url, "locator": locator, "required_contents": {"exact_match": expected}}
    return await evaluate(
        read_criteria({"eval_types": ["program_html"], "program_html": [target]}),
        intent="",
        answer="",
        page=page,
        judge=OfflineJudge(),
        shop=FileShop(data_dir()),
    )


@pytest.mark.slow
async def test_an_account_signs_in_and_pages_are_scored(page: JudgedPage) -> None:
    with pytest.raises(LoginRefused, match="still asks for a password"):
        await sign_in(page, Site.GITLAB, f"http://{HOST}", Account(ME, "wrong"))
    await sign_in(page, Site.GITLAB, f"http://{HOST}", Account(ME, PASSWORD))
    await page.goto(f"http://{HOST}/dashboard/todos")
    assert page.url == f"http://{HOST}/dashboard/todos"
    project = new_world()[PROJECTS].where(namespace=ME)[0]
    members = f"http://{HOST}/{project.path}/-/project_members"
    lookup = f"func:gitlab_get_project_memeber_role(__page__, '{ME}')"
    assert (await score(page, members, lookup, "Owner")).value == 1.0
    assert (await score(page, members, lookup, "Guest")).value == 0.0
    assert page.url == members
    branches = "document.querySelectorAll('main li').length"
    address = f"http://{HOST}/{project.path}/-/branches"
    assert (await score(page, address, branches, "4")).value == 1.0
    with pytest.raises(PageFailed):
        await page.evaluate("nothing.at.all")
