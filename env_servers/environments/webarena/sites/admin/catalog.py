"""Products and what customers write about them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.admin.frame import ADMIN, only_managers
from env_servers.environments.webarena.sites.admin.grids import Column, Grid
from env_servers.environments.webarena.sites.formats import slug
from env_servers.environments.webarena.sites.shop.rows import (
    CATEGORIES,
    PRODUCTS,
    REVIEWS,
    Product,
    Review,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__: list[str] = []

_ENABLED: Final = {"1": "Enabled", "0": "Disabled"}
_REVIEW_STATES: Final = {"approved": "Approved", "pending": "Pending", "rejected": "Not Approved"}
_STATUS_IDS: Final = {"1": "approved", "2": "pending", "3": "rejected"}

_PRODUCTS: Final[Grid[Product]] = Grid(
    "Products",
    "Catalog",
    (
        Column("id", "ID", lambda row: row.id, "number"),
        Column("name", "Name", lambda row: row.name),
        Column("sku", "SKU", lambda row: row.sku),
        Column("price", "Price", lambda row: row.price, "money"),
        Column("qty", "Quantity", lambda row: row.stock, "number"),
        Column("status", "Status", lambda row: str(int(row.enabled)), "choice", _ENABLED),
    ),
    lambda row: f"/admin/catalog/product/edit/id/{row.id}/",
    "Edit",
    new=("/admin/catalog/product/new/", "Add Product"),
    mass="/admin/catalog/product/mass/",
    actions=(("enable", "Enable"), ("disable", "Disable"), ("delete", "Delete")),
    falls=False,
)


@ADMIN.page("/admin/catalog/product", "/admin/catalog/product/index", signed_in=True)
def products(visit: Visit) -> Response:
    """Show the products."""
    return _PRODUCTS.show(visit, visit.world[PRODUCTS])


@ADMIN.form("/admin/catalog/product/mass")
def change_products(visit: Visit) -> Response:
    """Enable, disable or delete the chosen products."""
    only_managers(visit)
    action, table = visit.form.text("action"), visit.world[PRODUCTS]
    chosen = [n for n in visit.form.numbers("selected") if table.get(n) is not None]
    if action not in ("enable", "disable", "delete") or not chosen:
        text = "Please choose items and an action."
        return visit.back("/admin/catalog/product/", text, failed=True)
    for number in chosen:
        if action == "delete":
            table.remove(number)
        else:
            table.change(number, enabled=action == "enable")
    return visit.back("/admin/catalog/product/", f"{len(chosen)} record(s) have been updated.")


def _leaves(world: World) -> list[tuple[int, str]]:
    """Return the categories that hold products."""
    return [(c.id, c.path) for c in world[CATEGORIES] if c.path.count("/") == 2]


@ADMIN.page("/admin/catalog/product/edit/id/{id:int}", signed_in=True)
def edit_product(visit: Visit) -> Response:
    """Show the form of a product."""
    product = visit.world[PRODUCTS].get(visit.parameters["id"])
    if product is None:
        raise Missing
    return visit.render("product.html", product=product, categories=_leaves(visit.world))


@ADMIN.page("/admin/catalog/product/new", signed_in=True)
def new_product(visit: Visit) -> Response:
    """Show the form for a new product."""
    blank = Product(0, "", "", "", "", 0, 0, 0, (), (), "", 0, True, visit.world.now.date())
    return visit.render("product.html", product=blank, categories=_leaves(visit.world))


@ADMIN.form("/admin/catalog/product/save", "/admin/catalog/product/save/id/{id:int}")
def save_product(visit: Visit) -> Response:
    """Save a new or changed product."""
    only_managers(visit)
    table, form = visit.world[PRODUCTS], visit.form
    number = visit.parameters.get("id", 0)
    before = table.get(number)
    if number and before is None:
        raise Missing
    page = f"/admin/catalog/product/edit/id/{number}/" if number else "/admin/catalog/product/new/"
    name, sku, price = (
        form.text("product[name]"),
        form.text("product[sku]"),
        form.cents("product[price]"),
    )
    if not name or not sku or price is None:
        return visit.redirect(page, "Name, SKU and a price are required.", failed=True)
    if any(other.id != number for other in table.where(sku=sku)):
        return visit.redirect(page, "The SKU is in use by another product.", failed=True)
    special = form.cents("product[special_price]")
    stock = form.number("product[quantity_and_stock_status][qty]", 0, high=10**6)
    if form.text("product[quantity_and_stock_status][is_in_stock]", "1") == "0":
        stock = 0
    known = {number for number, _ in _leaves(visit.world)}
    category = form.number("product[category]")
    is_sale = special is not None and special < price
    product = Product(
        number or table.next_id,
        sku,
        name,
        before.slug if before is not None else _free_slug(visit.world, name),
        before.brand if before is not None else "",
        category if category in known else before.category if before is not None else min(known),
        special if special is not None and is_sale else price,
        price if is_sale else 0,
        before.options if before is not None else (),
        before.facts if before is not None else (),
        form.text("product[description]"),
        stock,
        form.text("product[status]", "1") != "0",
        before.created if before is not None else visit.world.now.date(),
    )
    table.put(product)
    text = "You saved the product."
    return visit.redirect(f"/admin/catalog/product/edit/id/{product.id}/", text)


def _free_slug(world: World, name: str) -> str:
    wanted = slug(name)
    if not world[PRODUCTS].where(slug=wanted):
        return wanted
    return f"{wanted}-{world[PRODUCTS].next_id}"


def _product_name(world: World, review: Review) -> str:
    product = world[PRODUCTS].get(review.product)
    return product.name if product is not None else ""


def _reviews(world: World) -> Grid[Review]:
    return Grid(
        "Reviews",
        "Marketing",
        (
            Column("id", "ID", lambda row: row.id, "number"),
            Column("created_at", "Created", lambda row: row.created, "day"),
            Column("status", "Status", lambda row: row.status, "choice", _REVIEW_STATES),
            Column("title", "Title", lambda row: row.title),
            Column("nickname", "Nickname", lambda row: row.nickname),
            Column("detail", "Review", lambda row: row.text),
            Column("stars", "Stars", lambda row: row.stars, "number"),
            Column("name", "Product", lambda row: _product_name(world, row)),
        ),
        lambda row: f"/admin/review/product/edit/id/{row.id}/",
        "Edit",
        mass="/admin/review/product/mass/",
        actions=(("approved", "Approve"), ("rejected", "Not Approve"), ("delete", "Delete")),
    )


@ADMIN.page("/admin/review/product", "/admin/review/product/index", signed_in=True)
def reviews(visit: Visit) -> Response:
    """Show all reviews."""
    return _reviews(visit.world).show(visit, visit.world[REVIEWS])


@ADMIN.page("/admin/review/product/pending", signed_in=True)
def pending(visit: Visit) -> Response:
    """Show the reviews that wait for approval."""
    return _reviews(visit.world).show(visit, visit.world[REVIEWS].where(status="pending"))


@ADMIN.form("/admin/review/product/mass")
def change_reviews(visit: Visit) -> Response:
    """Approve, reject or delete the chosen reviews."""
    only_managers(visit)
    action, table = visit.form.text("action"), visit.world[REVIEWS]
    chosen = [n for n in visit.form.numbers("selected") if table.get(n) is not None]
    if action not in (*_REVIEW_STATES, "delete") or not chosen:
        text = "Please choose items and an action."
        return visit.back("/admin/review/product/index/", text, failed=True)
    for number in chosen:
        if action == "delete":
            table.remove(number)
        else:
            table.change(number, status=action)
    return visit.back("/admin/review/product/index/", f"{len(chosen)} record(s) have been updated.")


@ADMIN.page("/admin/review/product/edit/id/{id:int}", signed_in=True)
def edit_review(visit: Visit) -> Response:
    """Show the form of a review."""
    review = visit.world[REVIEWS].get(visit.parameters["id"])
    if review is None:
        raise Missing
    states = [(number, _REVIEW_STATES[state]) for number, state in _STATUS_IDS.items()]
    chosen = next(number for number, state in _STATUS_IDS.items() if state == review.status)
    product = visit.world[PRODUCTS].get(review.product)
    return visit.render("review.html", review=review, product=product, states=states, chosen=chosen)


@ADMIN.form("/admin/review/product/save/id/{id:int}")
def save_review(visit: Visit) -> Response:
    """Change a review."""
    only_managers(visit)
    form, table, number = visit.form, visit.world[REVIEWS], visit.parameters["id"]
    if table.get(number) is None:
        raise Missing
    status = _STATUS_IDS[form.choice("status_id", _STATUS_IDS, "2")]
    nick, title, text = form.text("nickname"), form.text("title"), form.text("detail")
    if not (nick and title and text):
        page = f"/admin/review/product/edit/id/{number}/"
        return visit.redirect(page, "Please fill in nickname, summary and review.", failed=True)
    table.change(number, status=status, nickname=nick, title=title, text=text)
    return visit.redirect("/admin/review/product/index/", "You saved the review.")


@ADMIN.form("/admin/review/product/delete/id/{id:int}")
def delete_review(visit: Visit) -> Response:
    """Delete a review."""
    only_managers(visit)
    visit.world[REVIEWS].remove(visit.parameters["id"])
    return visit.redirect("/admin/review/product/index/", "The review has been deleted.")
