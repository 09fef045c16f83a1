"""The shop's administration: grids, forms and roles; what it changes, the shop shows."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from env_servers.environments.webarena.sites.shop.rows import (
    CUSTOMERS,
    INVOICES,
    ITEMS,
    NOTES,
    ORDERS,
    PAGES,
    PRODUCTS,
    REVIEWS,
    RULES,
    SHIPMENTS,
    Order,
)
from tests.env_servers.environments.webarena.sites.browsing import Forms, Visitor

Visit = Callable[..., Visitor]


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    return visit("admin", "admin")


def records(visitor: Visitor) -> int:
    found = re.search("([0-9]+) records found", visitor.text)
    return int(found[1]) if found else -1


def order_with(visitor: Visitor, status: str) -> Order:
    return max(visitor.world[ORDERS].where(status=status), key=lambda order: order.id)


def status_of(visitor: Visitor, number: int) -> str:
    order = visitor.world[ORDERS].get(number)
    return order.status if order is not None else ""


def test_one_signs_in_to_see_anything(visit: Visit) -> None:
    admin = visit("admin").get("/admin/sales/order/")
    assert admin.path == "/admin?back=%2Fadmin%2Fsales%2Forder"
    admin.submit("auth/login", **{"login[username]": "admin", "login[password]": "no"})
    assert "sign-in was incorrect" in admin.text
    admin.submit("auth/login", **{"login[username]": "admin", "login[password]": "admin1234"})
    assert admin.path == "/admin/admin/dashboard/" and "Bestsellers" in admin.text
    admin.submit("auth/logout")
    assert admin.get("/admin/sales/order/").path.startswith("/admin?back")


def test_every_link_of_the_menu_leads_somewhere(admin: Visitor) -> None:
    links = sorted(set(Forms(admin.get("/admin").text).links))
    assert len(links) > 20
    assert {admin.get(link).status for link in links} == {200}


def test_every_column_of_every_grid_sorts(admin: Visitor) -> None:
    # Some cart rules have no first day, and no text comes before or after a date.
    for page in sorted(set(Forms(admin.get("/admin").text).links)):
        links = sorted({link for link in Forms(admin.get(page).text).links if "sort=" in link})
        assert {admin.get(link).status for link in links} <= {200}


def test_orders_are_filtered_searched_sorted_and_paged(admin: Visitor) -> None:
    orders = list(admin.world[ORDERS])
    admin.get("/admin/sales/order/").submit("/admin/sales/order", status="canceled")
    canceled = [order for order in orders if order.status == "canceled"]
    assert records(admin) == len(canceled) and "Active filters: Status: Canceled" in admin.text
    admin.submit("/admin/sales/order", **{"grand_total[from]": "500"})
    assert records(admin) == sum(order.total >= 50_000 for order in canceled)
    admin.get("/admin/sales/order/?created_at[from]=1/1/2025&created_at[to]=01/31/2025")
    assert records(admin) == sum(f"{o.created:%Y-%m}" == "2025-01" for o in orders)
    assert records(admin.get("/admin/sales/order/?search=hana+marsh")) > 40
    admin.get("/admin/sales/order/?sort=grand_total&dir=asc&limit=50&p=2")
    cheapest = sorted(orders, key=lambda order: (order.total, order.id))[50:100]
    assert cheapest[0].number in admin.text and f"{cheapest[-1].name}" in admin.text


def test_an_order_is_billed_shipped_and_refunded(admin: Visitor) -> None:
    order = order_with(admin, "pending")
    admin.get(f"/admin/sales/order/view/order_id/{order.id}/").submit("order_invoice")
    assert status_of(admin, order.id) == "processing"
    assert admin.world[INVOICES].where(order=order.id)[0].total == order.total
    admin.submit("order_shipment", carrier="Federal Express", tracking="8974568499")
    assert status_of(admin, order.id) == "complete"
    (shipment,) = admin.world[SHIPMENTS].where(order=order.id)
    assert (shipment.carrier, shipment.tracking) == ("Federal Express", "8974568499")
    admin.submit(
        "shipment/track" if "shipment/track" in admin.text else "shipment_id", tracking="1"
    )
    assert admin.world[SHIPMENTS].where(order=order.id)[0].tracking == "1"
    admin.submit("creditmemo")
    assert status_of(admin, order.id) == "closed" and "Credit Memo</button>" not in admin.text


def test_a_canceled_order_gives_its_stock_back(admin: Visitor) -> None:
    order = order_with(admin, "pending")
    item = admin.world[ITEMS].where(order=order.id)[0]
    before = admin.world[PRODUCTS].where(id=item.product)[0].stock
    admin.get(f"/admin/sales/order/view/order_id/{order.id}/").submit("order/hold")
    assert status_of(admin, order.id) == "holded"
    admin.submit("order/unhold").submit("order/cancel")
    assert 'id="order_status">Canceled<' in admin.text
    assert admin.world[PRODUCTS].where(id=item.product)[0].stock == before + item.quantity
    admin.post(f"/admin/sales/order/cancel/order_id/{order.id}/")
    assert "cannot be done" in admin.text


def test_a_comment_reaches_the_customer_if_it_is_visible(admin: Visitor) -> None:
    order = max(admin.world[ORDERS].where(customer=17), key=lambda order: order.id)
    admin.get(f"/admin/sales/order/view/order_id/{order.id}/").submit("addComment", **{
        "history[comment]": "It is on its way.", "history[is_visible_on_front]": "1"})  # fmt: skip
    note = max(admin.world[NOTES], key=lambda note: note.id)
    assert (note.order, note.text, note.notified, note.visible) == (
        order.id, "It is on its way.", False, True)  # fmt: skip
    shop = Visitor(admin.network, admin.world, "http://shop.test/").signed_in("shop", "17")
    assert "It is on its way." in shop.get(f"/sales/order/view/order_id/{order.id}/").text


def test_an_address_of_an_order_is_changed(admin: Visitor) -> None:
    order = order_with(admin, "pending")
    page = f"/admin/sales/order/address/order_id/{order.id}/shipping/"
    admin.get(page).submit("addressSave", street="456 Oak Avenue", city="New York",
        region="New York", postcode="10001", telephone="1")  # fmt: skip
    changed = admin.world[ORDERS].get(order.id)
    assert changed is not None and changed.billing == order.billing
    assert changed.delivery[1:3] == ("456 Oak Avenue", "New York, New York, 10001")


def test_several_orders_are_changed_at_once(admin: Visitor) -> None:
    pending = admin.world[ORDERS].where(status="pending")[-2:]
    complete = order_with(admin, "complete")
    numbers = [order.id for order in (*pending, complete)]
    admin.get("/admin/sales/order/").post(
        "/admin/sales/order/mass/", action="hold", selected=numbers
    )
    assert "2 order(s) changed, 1 not." in admin.text
    assert [status_of(admin, n) for n in numbers] == ["holded", "holded", "complete"]


def test_what_is_changed_in_a_product_the_shop_shows(admin: Visitor) -> None:
    product = next(
        p for p in admin.world[PRODUCTS] if not p.options and p.stock and not p.list_price
    )
    shop = Visitor(admin.network, admin.world, "http://shop.test/")
    page = f"/admin/catalog/product/edit/id/{product.id}/"
    admin.get(page).submit("product/save", **{"product[price]": "12.34",
        "product[quantity_and_stock_status][is_in_stock]": "0"})  # fmt: skip
    changed = admin.world[PRODUCTS].where(id=product.id)[0]
    assert (changed.price, changed.stock, changed.name) == (1234, 0, product.name)
    assert "$12.34" in shop.get(f"/{product.slug}.html").text and "OUT OF STOCK" in shop.text
    admin.get(page).submit("product/save", **{"product[price]": "ten"})
    assert "are required" in admin.text
    admin.get(page).submit("product/save", **{"product[status]": "0"})
    assert shop.get(f"/{product.slug}.html").status == 404


def test_a_product_is_added_with_a_sale_price(admin: Visitor) -> None:
    admin.get("/admin/catalog/product/new/").submit("product/save", **{
        "product[name]": "Energy Shirt", "product[sku]": "S60", "product[price]": "60",
        "product[special_price]": "48",
        "product[quantity_and_stock_status][qty]": "50"})  # fmt: skip
    shop = Visitor(admin.network, admin.world, "http://shop.test/").get("/energy-shirt.html")
    assert "$48.00" in shop.text and "$60.00" in shop.text and "S60" in shop.text
    assert "Energy Shirt" in shop.get("/catalogsearch/result/?q=energy+shirt&p=99").text


def test_reviews_are_moderated(admin: Visitor) -> None:
    first, second = admin.world[REVIEWS].where(status="pending")[:2]
    admin.get(f"/admin/review/product/edit/id/{first.id}/").submit(
        "review/product/save", status_id="1"
    )
    admin.get("/admin/review/product/pending/")
    admin.post("/admin/review/product/mass/", action="delete", selected=[second.id])
    assert [r.status for r in admin.world[REVIEWS].where(id=first.id)] == ["approved"]
    assert admin.world[REVIEWS].get(second.id) is None
    product = admin.world[PRODUCTS].where(id=first.product)[0]
    shop = Visitor(admin.network, admin.world, "http://shop.test/").get(f"/{product.slug}.html")
    assert first.nickname in shop.text


def test_a_rule_makes_carts_cheaper(admin: Visitor) -> None:
    admin.get("/admin/sales_rule/promo_quote/new/").submit("promo_quote/save",
        name="Spring sale", simple_action="by_percent", discount_amount="20",
        customer_group_ids=["Not Logged In", "General"])  # fmt: skip
    rule = max(admin.world[RULES], key=lambda rule: rule.id)
    assert (rule.name, rule.amount, rule.groups) == (
        "Spring sale",
        20,
        ("Not Logged In", "General"),
    )
    shop = Visitor(admin.network, admin.world, "http://shop.test/")
    product = next(p for p in admin.world[PRODUCTS] if not p.options and p.stock)
    shop.get(f"/{product.slug}.html").submit("/cart/add").get("/checkout/cart/")
    assert "Discount" in shop.text
    admin.get("/admin/sales_rule/promo_quote/new/").submit("promo_quote/save", name="No groups")
    assert "needs a name, customer groups" in admin.text


def test_customers_and_pages_are_edited(admin: Visitor) -> None:
    admin.get("/admin/customer/index/edit/id/17/").submit(
        "index/save", **{"customer[lastname]": "Moor"}
    )
    assert admin.world[CUSTOMERS].where(id=17)[0].last_name == "Moor"
    admin.get("/admin/cms/page/edit/page_id/1/").submit("page/save", title="Wrong page")
    assert admin.world[PAGES].where(id=1)[0].title == "Wrong page"
    shop = Visitor(admin.network, admin.world, "http://shop.test/").get("/nothing.html")
    assert shop.status == 404 and "<h1>Wrong page</h1>" in shop.text


def test_a_report_adds_up_what_was_sold(admin: Visitor) -> None:
    admin.get("/admin/reports/report_sales/sales/").submit("report_sales/sales",
        **{"from": "1/1/2025", "to": "3/31/2025", "period_type": "month"})  # fmt: skip
    kept = [o for o in admin.world[ORDERS] if o.status != "canceled"]
    march = [order for order in kept if f"{order.created:%Y-%m}" == "2025-03"]
    assert f"<td>3/2025</td><td>{len(march)}</td>" in admin.text
    admin.get(
        "/admin/reports/report_sales/bestsellers/?from=1/1/2025&to=1/31/2025&period_type=year"
    )
    assert admin.text.count("<td>2025</td>") == 10


def test_a_clerk_sees_everything_and_changes_only_orders(visit: Visit) -> None:
    clerk = visit("admin", "clerk")
    assert clerk.get("/admin/catalog/product/edit/id/5/").status == 200
    before = clerk.world.digest()
    clerk.submit("product/save", **{"product[price]": "1"})
    assert clerk.status == 403 and "permissions" in clerk.text
    assert clerk.world.digest() == before
    order = order_with(clerk, "pending")
    clerk.get(f"/admin/sales/order/view/order_id/{order.id}/").submit("order/cancel")
    assert status_of(clerk, order.id) == "canceled"
