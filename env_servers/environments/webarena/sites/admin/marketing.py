"""Rules for carts, search terms, pages of text."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.admin.frame import ADMIN, only_managers
from env_servers.environments.webarena.sites.admin.grids import Column, Grid
from env_servers.environments.webarena.sites.shop.rows import (
    PAGES,
    RULES,
    TERMS,
    CartRule,
    Page,
    SearchTerm,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit

__all__: list[str] = []

GROUPS: Final = ("Not Logged In", "General", "Wholesale", "Retailer")
KINDS: Final = {
    "by_percent": "Percent of product price discount",
    "cart_fixed": "Fixed amount discount for whole cart",
}
_RULES: Final[Grid[CartRule]] = Grid(
    "Cart Price Rules",
    "Marketing",
    (
        Column("id", "ID", lambda row: row.id, "number"),
        Column("name", "Rule", lambda row: row.name),
        Column("coupon", "Coupon Code", lambda row: row.coupon),
        Column("starts", "Start", lambda row: row.starts or ""),
        Column("ends", "End", lambda row: row.ends or ""),
        Column("status", "Status", lambda row: "Active" if row.active else "Inactive"),
    ),
    lambda row: f"/admin/sales_rule/promo_quote/edit/id/{row.id}/",
    "Edit",
    new=("/admin/sales_rule/promo_quote/new/", "Add New Rule"),
)
_TERMS: Final[Grid[SearchTerm]] = Grid(
    "Search Terms",
    "Marketing",
    (
        Column("id", "ID", lambda row: row.id, "number"),
        Column("text", "Search Query", lambda row: row.text),
        Column("results", "Results", lambda row: row.results, "number"),
        Column("uses", "Uses", lambda row: row.uses, "number"),
    ),
    order="uses",
)
_PAGES: Final[Grid[Page]] = Grid(
    "Pages",
    "Content",
    (
        Column("id", "ID", lambda row: row.id, "number"),
        Column("title", "Title", lambda row: row.title),
        Column("path", "URL Key", lambda row: row.path),
        Column("status", "Status", lambda row: "Enabled" if row.enabled else "Disabled"),
    ),
    lambda row: f"/admin/cms/page/edit/page_id/{row.id}/",
    "Edit",
    falls=False,
)


@ADMIN.page("/admin/sales_rule/promo_quote", signed_in=True)
def rules(visit: Visit) -> Response:
    """Show the rules for carts."""
    return _RULES.show(visit, visit.world[RULES])


@ADMIN.page("/admin/sales_rule/promo_quote/edit/id/{id:int}", signed_in=True)
def edit_rule(visit: Visit) -> Response:
    """Show the form of a rule."""
    rule = visit.world[RULES].get(visit.parameters["id"])
    if rule is None:
        raise Missing
    return visit.render("rule.html", rule=rule, groups=GROUPS, kinds=[*KINDS.items()])


@ADMIN.page("/admin/sales_rule/promo_quote/new", signed_in=True)
def new_rule(visit: Visit) -> Response:
    """Show the form for a new rule."""
    blank = CartRule(0, "", "", True, (), "", None, None, "by_percent", 0, 0)
    return visit.render("rule.html", rule=blank, groups=GROUPS, kinds=[*KINDS.items()])


@ADMIN.form("/admin/sales_rule/promo_quote/save", "/admin/sales_rule/promo_quote/save/id/{id:int}")
def save_rule(visit: Visit) -> Response:
    """Save a new or changed rule."""
    only_managers(visit)
    form, table, number = visit.form, visit.world[RULES], visit.parameters.get("id", 0)
    before = table.get(number)
    if number and before is None:
        raise Missing
    page = f"/admin/sales_rule/promo_quote/{f'edit/id/{number}' if number else 'new'}/"
    groups = tuple(group for group in GROUPS if group in form.all("customer_group_ids"))
    kind, cents = form.choice("simple_action", KINDS, "by_percent"), form.cents("discount_amount")
    amount = cents if kind == "cart_fixed" or cents is None else cents // 100
    if not form.text("name") or not groups or amount is None:
        text = "A rule needs a name, customer groups and a discount amount."
        return visit.redirect(page, text, failed=True)
    if kind == "by_percent" and amount > 100:
        return visit.redirect(page, "A discount is at most 100 percent.", failed=True)
    rule = CartRule(
        number or table.next_id,
        form.text("name"),
        form.text("description"),
        form.text("is_active", "1") == "1",
        groups,
        form.text("coupon_code"),
        form.day("from_date"),
        form.day("to_date"),
        kind,
        amount,
        before.uses if before is not None else 0,
    )
    table.put(rule)
    return visit.redirect("/admin/sales_rule/promo_quote/", "You saved the rule.")


@ADMIN.form("/admin/sales_rule/promo_quote/delete/id/{id:int}")
def delete_rule(visit: Visit) -> Response:
    """Delete a rule."""
    only_managers(visit)
    visit.world[RULES].remove(visit.parameters["id"])
    return visit.redirect("/admin/sales_rule/promo_quote/", "You deleted the rule.")


@ADMIN.page("/admin/search/term/index", "/admin/search/term", signed_in=True)
def terms(visit: Visit) -> Response:
    """Show what customers searched for."""
    return _TERMS.show(visit, visit.world[TERMS])


@ADMIN.page("/admin/cms/page", signed_in=True)
def pages(visit: Visit) -> Response:
    """Show the pages of text."""
    return _PAGES.show(visit, visit.world[PAGES])


@ADMIN.page("/admin/cms/page/edit/page_id/{id:int}", signed_in=True)
def edit_page(visit: Visit) -> Response:
    """Show the form of a page."""
    page = visit.world[PAGES].get(visit.parameters["id"])
    if page is None:
        raise Missing
    return visit.render("cms_page.html", page=page)


@ADMIN.form("/admin/cms/page/save/page_id/{id:int}")
def save_page(visit: Visit) -> Response:
    """Change a page."""
    only_managers(visit)
    form, table, number = visit.form, visit.world[PAGES], visit.parameters["id"]
    if table.get(number) is None:
        raise Missing
    title = form.text("title")
    if not title:
        address = f"/admin/cms/page/edit/page_id/{number}/"
        return visit.redirect(address, "A page needs a title.", failed=True)
    enabled = form.text("is_active", "1") == "1"
    table.change(number, title=title, text=form.text("content"), enabled=enabled)
    return visit.redirect("/admin/cms/page/", "You saved the page.")
