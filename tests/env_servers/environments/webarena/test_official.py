"""The official task file, accounts, and who may use a site when."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from env_servers.environments.webarena.evaluation import EvaluationFailed, Evaluator
from env_servers.environments.webarena.official import (
    AGENTEVAL,
    Account,
    DamagedTasks,
    OfficialSites,
    Reservations,
    ResetHook,
    Site,
    SiteService,
    find_tasks,
    read_accounts,
    read_tasks,
    sign_in,
)
from env_servers.environments.webarena.official.accounts import LoginRefused, expires_soon
from env_servers.environments.webarena.official.model import ChatModel
from env_servers.environments.webarena.official.reservations import (
    ResetFailed,
    SiteBusy,
    read_hooks,
)
from env_servers.environments.webarena.official.service import require_reachable
from env_servers.environments.webarena.official.settings import OfficialSettings
from env_servers.environments.webarena.official.task_set import OfficialTasks
from env_servers.sdk import EnvironmentUnavailable, InvalidOption, UnknownItem
from tests.env_servers.environments.webarena.recorded import StillPage
from tests.kit.data import needs_data, read_eval_ids, require_data

TASKS = "webarena/test.raw.json"
ENTRY: dict[str, Any] = {
    "sites": ["gitlab"],
    "task_id": 7,
    "require_login": True,
    "storage_state": "./.auth/gitlab.reddit_state.json",
    "start_url": "__GITLAB__/a |AND| __GITLAB__/b",
    "intent": "Star the project",
    "intent_template_id": 3,
    "eval": {
        "eval_types": ["program_html"],
        "reference_answers": None,
        "reference_url": "",
        "program_html": [
            {
                "url": "__GITLAB__/x",
                "locator": "func:gitlab_get_project_memeber_role(__page__, 'ann')",
                "required_contents": {"exact_match": "Guest"},
            }
        ],
    },
}


def written(folder: Path, *entries: object) -> Path:
    path = folder / "test.raw.json"
    path.write_text(json.dumps(list(entries)), encoding="utf-8")
    return path


def damaged(**fields: Any) -> dict[str, Any]:
    return {**ENTRY, **fields}


# ---------------------------------------------------------------------- the task file


@needs_data(TASKS)
def test_the_official_file_has_812_tasks_and_says_which_change_a_site() -> None:
    path = find_tasks(require_data(TASKS))
    assert path is not None
    tasks = read_tasks(path)
    assert [task.number for task in tasks] == list(range(812))
    assert sum(len(task.start_urls) > 1 for task in tasks) == 5
    assert Counter(len(task.logins) for task in tasks) == {1: 666, 0: 128, 2: 18}
    changing = {task.number for task in tasks if task.changes}
    of_pages = {t.number for t in tasks if Evaluator.PROGRAM in t.criteria.evaluators}
    assert len(changing) == 398
    assert {task.category for task in tasks if task.number in of_pages - changing} == {
        "map",
        "map+wikipedia",
    }
    assert changing - of_pages == {491, 723, 726, 783, 789, 790, 791, 792, 793, *range(794, 799)}
    assert not any(task.changes & task.reads for task in tasks)


@needs_data(TASKS)
def test_agentevals_list_is_the_published_one() -> None:
    assert [f"webarena_{number}" for number in AGENTEVAL] == read_eval_ids("webarena")


def test_a_task_is_placed_on_the_sites_that_are_there(tmp_path: Path) -> None:
    (task,) = read_tasks(written(tmp_path, ENTRY))
    assert (task.item_id, task.category) == ("webarena_7", "gitlab")
    assert task.logins == (Site.GITLAB, Site.REDDIT)
    sites = OfficialSites.read({"gitlab": "http://host:8023/", "reddit": "http://host:9999"})
    starts, criteria = task.place(sites)
    assert starts == ("http://host:8023/a", "http://host:8023/b")
    assert criteria.targets[0].url == "http://host:8023/x"
    with pytest.raises(EnvironmentUnavailable, match=r"--set webarena\.gitlab="):
        task.place(OfficialSites.read({}))


@pytest.mark.parametrize("url", ["host:8023", "ftp://host", "http://me:secret@host", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"webarena\.gitlab"):
        OfficialSites.read({"gitlab": url})


TARGET = ENTRY["eval"]["program_html"][0]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"eval": {**ENTRY["eval"], "eval_types": ["guess"]}}, "eval_type guess is not supported"),
        ({"eval": {**ENTRY["eval"], "program_html": [{"url": "last"}]}}, "lacks 'locator'"),
        ({"eval": {"eval_types": []}}, "program_html is no list"),
        ({"sites": ["myspace"]}, "'myspace' is not a valid Site"),
        ({"task_id": "7"}, "field task_id: is no int"),
        ({"intent": " "}, "field intent: is empty"),
        *(
            ({"eval": {**ENTRY["eval"], "program_html": [{**TARGET, **change}]}}, says)
            for change, says in (
                ({"locator": "func:no_such(__page__)"}, "name 'no_such' is not defined"),
                ({"locator": "func:__import__('os')"}, "name '__import__' is not defined"),
                ({"url": "func:reddit_get_post_url(1 + 1)"}, "neither a text nor"),
                ({"url": "func:reddit_get_post_url()"}, "other arguments"),
                ({"url": "func:("}, "no call of a function"),
                ({"locator": "window.x"}, "Unknown locator: window.x"),
                ({"required_contents": {}}, "Unknown required_contents"),
            )
        ),
    ],
)
def test_a_file_with_unknown_parts_is_refused_with_task_and_field(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(DamagedTasks) as refusal:
        read_tasks(written(tmp_path, ENTRY | {"task_id": 1}, damaged(**fields)))
    assert says in str(refusal.value)
    assert "Fetch config_files/test.raw.json" in str(refusal.value)


def test_a_file_that_is_cut_off_or_repeats_a_task_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRY, ENTRY)
    with pytest.raises(DamagedTasks, match="has a number twice"):
        read_tasks(path)
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(DamagedTasks, match="cannot be read"):
        read_tasks(path)


# ---------------------------------------------------------------------- tasks and settings


def task_set(tmp_path: Path, *entries: object, **values: str) -> OfficialTasks:
    return OfficialTasks(written(tmp_path, *entries), OfficialSettings.read(values))


def accounts(tmp_path: Path, *sites: str) -> str:
    path = tmp_path / "accounts.json"
    path.write_text(json.dumps({site: {"name": "ann", "password": "x"} for site in sites}))
    return str(path)


def test_tasks_are_listed_where_their_sites_and_accounts_are_known(tmp_path: Path) -> None:
    eval_number = AGENTEVAL[0]
    both = [ENTRY, damaged(task_id=eval_number, storage_state=None)]
    sites = {"gitlab": "http://git.test", "reddit": "http://forum.test"}
    names = accounts(tmp_path, "gitlab", "reddit")
    tasks = task_set(tmp_path, *both, accounts=names, **sites)
    assert tasks.splits == {"official_eval": [eval_number], "official_test": [7]}
    assert tasks.get(7).item_id == "webarena_7"
    assert task_set(tmp_path, *both).splits == {}
    for values, says in (
        (sites, r"webarena_7 needs an account on gitlab and reddit: say --set webarena\.accounts"),
        ({"gitlab": sites["gitlab"]}, r"webarena_7: .* say --set webarena\.reddit=http"),
    ):
        some = task_set(tmp_path, *both, **values)
        assert some.splits == {"official_eval": [eval_number]}
        with pytest.raises(EnvironmentUnavailable, match=says):
            some.get(7)
    with pytest.raises(UnknownItem, match=r"webarena_811"):
        tasks.get(811)
    with pytest.raises(EnvironmentUnavailable, match=r"config_files/test\.raw\.json"):
        OfficialTasks(None, OfficialSettings.read({})).get(811)


@needs_data(TASKS)
def test_with_all_sites_every_official_task_can_be_played(tmp_path: Path) -> None:
    sites = {site.value: f"http://{site.value.replace('_', '-')}.test" for site in Site}
    names = accounts(tmp_path, "gitlab", "reddit", "shopping", "shopping_admin")
    path = find_tasks(require_data(TASKS))
    tasks = OfficialTasks(path, OfficialSettings.read({**sites, "accounts": names}))
    assert {name: len(ids) for name, ids in tasks.splits.items()} == {
        "official_eval": 50,
        "official_test": 762,
    }
    assert list(tasks.splits["official_eval"]) == list(AGENTEVAL)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"site_seconds": "soon"}, r"webarena\.site_seconds must be a positive number"),
        ({"judge_model": "wise"}, r"--set webarena\.judge=http"),
        ({"judge": "wise.test", "judge_model": "wise"}, r"--set webarena\.judge=http"),
        ({"accounts": "/no/such/file"}, r"webarena\.accounts names /no/such/file"),
    ],
)
def test_a_setting_that_is_none_is_refused(values: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        OfficialSettings.read(values)


def test_a_judges_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"judge": "http://wise.test/v1", "judge_model": "wise", "judge_key_env": "WISE_KEY"}
    monkeypatch.delenv("WISE_KEY", raising=False)
    with pytest.raises(EnvironmentUnavailable, match="WISE_KEY"):
        OfficialSettings.read(values)
    monkeypatch.setenv("WISE_KEY", "open sesame")
    settings = OfficialSettings.read(values)
    assert settings.judge.name == "wise"
    assert "sesame" not in repr(settings)


def test_a_browser_reaches_only_the_hosts_of_settings() -> None:
    settings = OfficialSettings.read({"gitlab": "http://git.test:8023", "hosts": "tiles.test:80"})
    assert settings.resolver_rules == "MAP * ~NOTFOUND, EXCLUDE git.test, EXCLUDE tiles.test"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (500, {}, "it answers 500"),
        (401, {}, "it answers 401"),
        (200, {"choices": []}, "its answer is no completion"),
        (200, {"choices": [{"message": {"content": None}}]}, "its completion has no text"),
    ],
)
async def test_a_judge_that_cannot_be_asked_is_named(
    aiohttp_address: Any, status: int, body: object, says: str
) -> None:
    async def complete(request: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    model = ChatModel(f"{await aiohttp_address(app)}/v1", "wise", "", seconds=0.5)
    with pytest.raises(EnvironmentUnavailable, match=rf"the judge wise at http.*{says}"):
        await model([{"role": "user", "content": "Same?"}])


# ---------------------------------------------------------------------- accounts


def test_passwords_are_in_no_text_of_an_account_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    path.write_text('{"gitlab": {"name": "ann", "password": "open sesame"}}', encoding="utf-8")
    account = read_accounts(path)[Site.GITLAB]
    assert "sesame" not in repr(account)
    path.write_text('{"gitlab": {"name": "ann", "password": "open sesame"}', encoding="utf-8")
    with pytest.raises(InvalidOption) as refusal:
        read_accounts(path)
    assert "sesame" not in str(refusal.value)
    assert "password" in str(refusal.value)


async def test_signing_in_without_an_account_or_a_form_says_what_to_do() -> None:
    with pytest.raises(LoginRefused, match=r"webarena\.accounts=FILE"):
        await sign_in(StillPage(), Site.GITLAB, "http://git.test", None)
    with pytest.raises(LoginRefused, match="users/sign_in as ann failed"):
        await sign_in(StillPage(), Site.GITLAB, "http://git.test", Account("ann", "x"))


def test_a_login_is_renewed_when_its_first_cookie_ends_soon() -> None:
    assert expires_soon({}, 0.0)
    assert expires_soon({"cookies": [{"expires": 2_000}, {"expires": 9e9}]}, 0.0)
    assert not expires_soon({"cookies": [{"expires": 3_000}, {"expires": -1}]}, 0.0)
    assert not expires_soon({"cookies": [{"expires": -1}]}, 0.0)


# ---------------------------------------------------------------------- the shop's interface


@pytest.fixture
async def shop(aiohttp_address: Any) -> str:
    async def token(request: web.Request) -> web.Response:
        given = await request.json()
        return web.json_response("t1" if given["password"] == "right" else None)

    async def orders(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer t1":
            return web.Response(status=401)
        return web.json_response({"items": []})

    app = web.Application()
    app.router.add_post("/rest/default/V1/integration/admin/token", token)
    app.router.add_get("/rest/V1/orders", orders)
    return await aiohttp_address(app)


@pytest.fixture
async def aiohttp_address() -> Any:
    runners: list[web.AppRunner] = []

    async def serve(app: web.Application) -> str:
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    for runner in runners:
        await runner.cleanup()


async def test_the_shop_is_asked_as_its_administrator(shop: str) -> None:
    right = SiteService(shop, Account("admin", "right"), seconds=5)
    assert await right.get("orders?x=1") == {"items": []}
    for service, says in (
        (SiteService(shop, Account("admin", "wrong"), seconds=5), "answers 401"),
        (SiteService(shop, None, seconds=5), "account shopping_admin"),
        (SiteService("http://127.0.0.1:9", Account("a", "b"), seconds=5), "does not answer"),
    ):
        with pytest.raises(EnvironmentUnavailable, match=says) as refusal:
            await service.get("orders")
        assert not isinstance(refusal.value, EvaluationFailed)


async def test_a_site_that_is_not_there_is_said_with_its_limit() -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"gitlab .* does not answer within 2 s"):
        await require_reachable("gitlab", "http://127.0.0.1:9", 2)


# ---------------------------------------------------------------------- reservations


class Diary:
    """Episodes on one site, in the order in which they began and ended."""

    def __init__(self, folder: Path, **hooks: str) -> None:
        self.folder = folder
        self.hooks = {Site(name): ResetHook(text, 10) for name, text in hooks.items()}
        self.lines: list[str] = []

    def reserve(self, name: str, *, seconds: float = 10) -> AbstractAsyncContextManager[None]:
        # Each episode has its own object, as in a process of its own.
        sites = Reservations(self.folder, {Site.GITLAB: "http://git.test"})
        changes, reads = ([Site.GITLAB], []) if name.startswith("w") else ([], [Site.GITLAB])
        return sites.reserve(changes, reads, self.hooks, seconds)

    async def play(self, name: str, steps: int = 3) -> None:
        async with self.reserve(name):
            self.lines.append(f"{name} begins")
            await asyncio.sleep(0.02 * steps)
            self.lines.append(f"{name} ends")


async def test_readers_are_together_and_a_writer_is_alone(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    await asyncio.gather(diary.play("r1", 6), diary.play("r2", 6))
    assert [line.split()[1] for line in diary.lines] == ["begins", "begins", "ends", "ends"]
    diary.lines.clear()
    await asyncio.gather(*(diary.play(name) for name in ("w1", "r1", "w2", "r2")))
    for place, line in enumerate(diary.lines):
        if line.startswith("w") and line.endswith("begins"):
            assert diary.lines[place + 1] == line.replace("begins", "ends")


async def test_a_waiting_writer_keeps_later_readers_behind_it(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    first = asyncio.create_task(diary.play("r1", 15))
    await asyncio.sleep(0.05)
    writer = asyncio.create_task(diary.play("w1"))
    await asyncio.sleep(0.1)
    await asyncio.gather(first, writer, diary.play("r2"))
    assert diary.lines.index("w1 ends") < diary.lines.index("r2 begins")


async def test_a_site_that_stays_taken_is_said(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    async with diary.reserve("w1"):
        with pytest.raises(SiteBusy, match=r"wait_seconds"):
            async with diary.reserve("r1", seconds=0.1):
                raise AssertionError("it was not alone")
    async with diary.reserve("r1", seconds=0.1):
        pass


async def test_a_changed_site_is_set_back_even_when_its_episode_died(tmp_path: Path) -> None:
    counter = tmp_path / "resets"
    program = f"import os; open({str(counter)!r}, 'a').write(os.environ['WEBARENA_SITE'] + ' ')"
    command = f'{sys.executable} -c "{program}"'
    without, diary = Diary(tmp_path), Diary(tmp_path, gitlab=command)
    await diary.play("w1")
    assert counter.read_text().split() == ["gitlab"]
    await diary.play("r1")
    await without.play("w2")  # nobody sets it back, as when a process dies
    await asyncio.gather(diary.play("r1"), diary.play("r2"))
    assert counter.read_text().split() == ["gitlab", "gitlab"]


async def test_a_site_that_cannot_be_set_back_is_played_by_nobody(tmp_path: Path) -> None:
    diary = Diary(tmp_path, gitlab=f'{sys.executable} -c "raise SystemExit(3)"')
    with pytest.raises(ResetFailed, match="it ends with 3"):
        await diary.play("w1")
    with pytest.raises(ResetFailed):
        await diary.play("r1")
    assert "r1 begins" not in diary.lines


async def test_a_hook_may_be_an_address(tmp_path: Path, aiohttp_address: Any) -> None:
    asked: list[str] = []

    async def reset(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.Response(status=200 if len(asked) == 1 else 503)

    app = web.Application()
    app.router.add_route("*", "/reset", reset)
    diary = Diary(tmp_path, gitlab=f"{await aiohttp_address(app)}/reset")
    await diary.play("w1")
    assert asked == ["POST"]
    with pytest.raises(ResetFailed, match="answers 503"):
        await diary.play("w2")


def test_hooks_come_from_settings() -> None:
    hooks = read_hooks({"reset_gitlab": "make reset", "reset_seconds": "5"})
    assert hooks == {Site.GITLAB: ResetHook("make reset", 5)}
    with pytest.raises(InvalidOption, match="reset_seconds"):
        read_hooks({"reset_seconds": "soon"})
