"""Templates of code hosting and others for which something is read on one site, used on another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from env_servers.environments.webarena.sites.formats import money
from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.forum.rows import FORUMS, POSTS, Forum
from env_servers.environments.webarena.sites.git.content import ME
from env_servers.environments.webarena.sites.git.frame import stars_of
from env_servers.environments.webarena.sites.git.rows import (
    COMMITS,
    FILES,
    ISSUES,
    PROJECTS,
    USERS,
    Project,
)
from env_servers.environments.webarena.sites.map.places import PLACES, Place
from env_servers.environments.webarena.sites.shop.rows import ORDERS, PRODUCTS, Order, Product
from env_servers.environments.webarena.sites.wiki.articles import ARTICLES, Article
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.changes import only_change
from env_servers.environments.webarena.templates.forum_paths import START as FORUM
from env_servers.environments.webarena.templates.forum_paths import submit_in
from env_servers.environments.webarena.templates.forum_writing import posted
from env_servers.environments.webarena.templates.git_places import (
    START,
    all_projects,
    find_project,
    menu,
    my_projects,
)
from env_servers.environments.webarena.templates.plan import (
    Answer,
    ClickOn,
    Move,
    Open,
    TypeInto,
    refill,
)
from env_servers.environments.webarena.templates.site_task import (
    SiteTask,
    WorldCheck,
    answered,
    at_page,
)
from env_servers.environments.webarena.templates.template import Template

__all__ = ["TEMPLATES"]

_WIKI: Final = "http://wikipedia.org"
_MAP: Final = "http://openstreetmap.org"
_SHOP: Final = "http://onestopmarket.com"
_ADMIN: Final = "http://luma.com/admin"


def _change(intent: str, start: str, check: WorldCheck, *moves: Move) -> SiteTask:
    return SiteTask(intent=intent, start=start, check=check, plan=(*moves, Answer()))


def _read(title: str) -> Move:
    return TypeInto("searchbox", "Search the encyclopedia", title, enter=True)


def _locate(place: Place) -> tuple[Move, ...]:
    typed = TypeInto("textbox", "Search", place.name, enter=True)
    return typed, ClickOn("link", place.full_name)


def _articles(kind: str) -> Callable[[World], Sequence[Article]]:
    return lambda world: world[ARTICLES].where(kind=kind)


def _places(*kinds: str) -> Callable[[World], Sequence[Place]]:
    """Return the candidates: places whose name is theirs alone on the map."""

    def candidates(world: World) -> Sequence[Place]:
        names = Counter(place.name for place in world[PLACES])
        rows = [place for kind in kinds for place in world[PLACES].where(kind=kind)]
        return [place for place in rows if names[place.name] == 1]

    return candidates


def _reported(project: Project, title: str) -> WorldCheck:
    def check(world: World) -> bool:
        row = only_change(world, ISSUES)
        return row is not None and (row.path, row.title) == (project.path, title)

    return check


def _report(project: Project, title: str) -> tuple[Move, ...]:
    """Return the moves from any site to a new issue."""
    clicks = ClickOn("link", "New issue"), TypeInto("textbox", "Title", title, enter=True)
    return Open(START), *menu(project, "Issues"), *clicks


def _by_key(world: World, key: int) -> Project:
    projects = my_projects(world)
    return projects[key % len(projects)]


def _issue_of_director(world: World, film: Article) -> SiteTask:
    project, title = _by_key(world, len(film.title)), film.fact("Director")
    return _change(
        f"Look up who directed {film.title} and open an issue in {project.path} whose title is that"
        " name and nothing else.",
        _WIKI,
        _reported(project, title),
        _read(film.title),
        *_report(project, title),
    )


def _issue_of_phone(world: World, place: Place) -> SiteTask:
    project, title = _by_key(world, place.id), dict(place.tags)["phone"]
    return _change(
        f"Find the telephone number of {place.name} in {place.town} on the map. Then open an issue"
        f" in {project.path} that has this number, as it is written there, as its title.",
        _MAP,
        _reported(project, title),
        *_locate(place),
        *_report(project, title),
    )


def _find_order(order: Order) -> tuple[Move, ...]:
    return (
        ClickOn("link", "Orders"),
        TypeInto("textbox", "Search by keyword", order.email, enter=True),
    )


def _issue_of_customer(world: World, order: Order) -> SiteTask:
    project, title = _by_key(world, order.id), order.name
    return _change(
        f"Which customer of our shop has the email address {order.email}? Open an issue in"
        f" {project.path} titled with the name that the orders are billed to.",
        _ADMIN,
        _reported(project, title),
        *_find_order(order),
        *_report(project, title),
    )


def _single_orders(world: World) -> Sequence[Order]:
    """Orders whose email address has one name."""
    counts = Counter(email for email, _ in {(row.email, row.name) for row in world[ORDERS]})
    seen: dict[str, Order] = {row.email: row for row in world[ORDERS] if counts[row.email] == 1}
    return [*seen.values()]


def _products(world: World) -> Sequence[Product]:
    return [row for row in world[PRODUCTS] if row.enabled and not row.list_price]


def _short(product: Product) -> str:
    """Return a product's name up to its first comma, which no two share."""
    return product.name.partition(",")[0]


def _find_product(product: Product) -> tuple[Move, ...]:
    typed = TypeInto("combobox", "Search", _short(product), enter=True)
    return typed, ClickOn("link", product.name)


def _issue_of_price(world: World, product: Product) -> SiteTask:
    project, title = _by_key(world, product.id), f"Costs {money(product.price)}"
    return _change(
        f"What does the {_short(product)} cost in the shop? Open an issue in {project.path} with"
        " the title “Costs PRICE”, with the price as the shop writes it for PRICE.",
        _SHOP,
        _reported(project, title),
        *_find_product(product),
        *_report(project, title),
    )


def _project_about(_: World, river: Article) -> SiteTask:
    slug, length = f"{river.title.lower().replace(' ', '-')}-study", river.fact("Length")

    def check(world: World) -> bool:
        row = only_change(world, PROJECTS)
        return row is not None and (row.path, row.about) == (f"{ME}/{slug}", length)

    return _change(
        f"Create a project {slug} on GitLab. Its description has to be the length of the"
        f" {river.title}, written just as in the encyclopedia.",
        _WIKI,
        check,
        _read(river.title),
        Open(START),
        ClickOn("link", "New project"),
        TypeInto("textbox", "Project name", slug),
        TypeInto("textbox", "Project description", length),
        ClickOn("button", "Create project"),
    )


def _file_of_population(world: World, town: Article) -> SiteTask:
    project, text = _by_key(world, len(town.title)), town.fact("Population")
    name = f"{town.title.lower().replace(' ', '_')}.txt"

    def check(world: World) -> bool:
        row, commit = only_change(world, FILES), only_change(world, COMMITS)
        wanted = (project.path, project.branch, name, text)
        return (
            row is not None
            and commit is not None
            and (row.path, row.branch, row.name, row.text.strip()) == wanted
        )

    return _change(
        f"Add a file {name} to the default branch of {project.path} that says how many people live"
        f" in {town.title}: only the number, as the encyclopedia writes it.",
        _WIKI,
        check,
        _read(town.title),
        Open(START),
        *find_project(project),
        ClickOn("link", "New file"),
        TypeInto("textbox", "Filename", name),
        TypeInto("textbox", "Content", text),
        ClickOn("button", "Commit changes"),
    )


def _status_of_address(_: World, place: Place) -> SiteTask:
    text = place.postcode

    def check(world: World) -> bool:
        row = only_change(world, USERS)
        return row is not None and (row.name, row.status) == (ME, text)

    return _change(
        f"Set my GitLab status to the postcode of {place.name} in {place.town}; the map has it.",
        _MAP,
        check,
        *_locate(place),
        Open(START),
        ClickOn("link", "Edit profile"),
        *refill("textbox", "Your status", text),
        ClickOn("button", "Update profile settings"),
    )


def _pairs(world: World) -> Sequence[tuple[Forum, Project]]:
    names = ("databases", "electronics", "engineering", "gadgets", "homeautomation", "askanything")
    forums = [row for row in world[FORUMS] if row.name in names]
    return [
        (forums[number % len(forums)], project)
        for number, project in enumerate(all_projects(world))
    ]


def _promote(world: World, chosen: tuple[Forum, Project]) -> SiteTask:
    forum, project = chosen

    def check(world: World) -> bool:
        last = world.base.content(POSTS).last_id
        new = [row for row in world[POSTS].where(author=MEMBER) if row.id > last]
        return [(row.forum, row.title, row.url.partition("://")[2]) for row in new] == [
            (forum.name, project.about, f"git.test/{project.path}")
        ]

    return _change(
        f"Promote the GitLab project {project.path} in the forum {forum.name}: post a link to it,"
        " with the project's description as the title.",
        START,
        check,
        *find_project(project),
        Open(FORUM),
        ClickOn("link", "Submit"),
        TypeInto("textbox", "URL", f"{START}/{project.path}"),
        TypeInto("textbox", "Title", project.about),
        TypeInto("combobox", "Forum", forum.name),
        ClickOn("button", "Create submission"),
    )


def _boast(world: World, chosen: tuple[Forum, Project]) -> SiteTask:
    forum, project = chosen
    title, body = f"How popular is {project.slug}?", str(stars_of(world, project.path))
    return _change(
        f"How many stars does {project.path} have on GitLab? Post it in the forum {forum.name}"
        f" under the title “{title}”, with the number alone as the body.",
        START,
        posted(forum.name, title, body),
        *find_project(project),
        Open(FORUM),
        *submit_in(world, forum.name, title, body),
    )


def _price_post(world: World, product: Product) -> SiteTask:
    title, body = f"Is the {_short(product)} worth it?", money(product.price)
    return _change(
        f"Ask the forum gifts whether the {_short(product)} is worth its money: the title is"
        f" “{title}”, the body is only its price in the shop.",
        _SHOP,
        posted("gifts", title, body),
        *_find_product(product),
        Open(FORUM),
        *submit_in(world, "gifts", title, body),
    )


def _teams(world: World) -> Sequence[tuple[Article, Place]]:
    found: list[tuple[Article, Place]] = []
    for team in world[ARTICLES].where(kind="team"):
        places = world[PLACES].where(name=team.fact("Home ground"))
        if len(places) == 1:
            found.append((team, places[0]))
    return found


def _home_ground(_: World, chosen: tuple[Article, Place]) -> SiteTask:
    team, place = chosen
    return SiteTask(
        intent=f"Where do the {team.title} play at home? Open that place's page on the map.",
        start=_WIKI,
        criteria=at_page(f"http://map.test/node/{place.id}"),
        plan=(_read(team.title), Open(_MAP), *_locate(place), Answer()),
    )


def _buildings(world: World) -> Sequence[tuple[Article, Place]]:
    found: list[tuple[Article, Place]] = []
    for kind in ("museum", "theatre", "library"):
        for article in world[ARTICLES].where(kind=kind):
            places = world[PLACES].where(name=article.title)
            if len(places) == 1:
                found.append((article, places[0]))
    return found


def _architect(_: World, chosen: tuple[Article, Place]) -> SiteTask:
    article, place = chosen
    parts = article.fact("Architect"), place.postcode
    return SiteTask(
        intent=f"Who designed the {article.title}, and what is its postcode on the map?",
        start=_MAP,
        criteria=answered(*parts),
        plan=(*_locate(place), Open(_WIKI), _read(article.title), Answer(", ".join(parts))),
    )


def _delivered(world: World) -> Sequence[tuple[Order, Article]]:
    """Orders whose customer has no other one, and the article of the town they go to."""
    counts = Counter(row.email for row in world[ORDERS])
    found: list[tuple[Order, Article]] = []
    for order in world[ORDERS]:
        town = world[ARTICLES].get(order.delivery[2].partition(",")[0])
        if counts[order.email] == 1 and town is not None and town.kind == "town":
            found.append((order, town))
    return found


def _mayor(_: World, chosen: tuple[Order, Article]) -> SiteTask:
    order, town = chosen
    mayor = town.fact("Mayor")
    return SiteTask(
        intent=f"To which town goes the only order of {order.email} in our shop, and who is its"
        " mayor by the encyclopedia? Give both.",
        start=_ADMIN,
        criteria=answered(town.title, mayor),
        plan=(
            *_find_order(order),
            ClickOn("link", "View"),
            Open(_WIKI),
            _read(town.title),
            Answer(f"{town.title}, {mayor}"),
        ),
    )


TEMPLATES: Final[tuple[Template[Any], ...]] = (
    Template("git+wiki.issue_of_director", _articles("film"), _issue_of_director),
    Template("git+map.issue_of_phone", _places("hotel", "cafe"), _issue_of_phone),
    Template("git+admin.issue_of_customer", _single_orders, _issue_of_customer),
    Template("git+shop.issue_of_price", _products, _issue_of_price),
    Template("git+wiki.project_about", _articles("river"), _project_about),
    Template("git+wiki.file_of_population", _articles("town"), _file_of_population),
    Template("git+map.status", _places("hotel", "library", "museum"), _status_of_address),
    Template("git+forum.promote", _pairs, _promote),
    Template("git+forum.stars", _pairs, _boast),
    Template("shop+forum.worth", _products, _price_post),
    Template("wiki+map.home_ground", _teams, _home_ground),
    Template("wiki+map.architect", _buildings, _architect),
    Template("admin+wiki.mayor", _delivered, _mayor),
)
