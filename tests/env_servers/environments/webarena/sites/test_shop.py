"""The shop: what its pages show, and what its forms do to its tables."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_base, new_world
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CART,
    CATEGORIES,
    CUSTOMERS,
    ITEMS,
    MESSAGES,
    ORDERS,
    PRODUCTS,
    REVIEWS,
    SUBSCRIBERS,
    WISHES,
    Product,
)
from env_servers.environments.webarena.sites.shop.service import WorldShop
from env_servers.environments.webarena.sites.shop.trade import PASSWORD, SHOPPER
from tests.env_servers.environments.webarena.sites.browsing import Forms, Visitor

Visit = Callable[..., Visitor]
ME = str(SHOPPER)
DIGEST = "e68fcbb311caad9bdffd5fb2d0e2887d"
"""Tasks name products, orders and reviews: whoever changes the content changes the tasks."""


def product_with(*, options: bool, stock: int = 20) -> Product:
    return next(p for p in new_world()[PRODUCTS] if bool(p.options) == options and p.stock >= stock)


def message(visitor: Visitor) -> str:
    found = re.search(r'role="alert">(.*?)</div>', visitor.text)
    return found[1] if found else ""


def test_the_content_has_the_promised_size_and_belongs_together() -> None:
    world = new_world()
    assert len(world[PRODUCTS]) >= 3000 and len(world[REVIEWS]) >= 10_000
    assert len(world[ORDERS]) >= 3000 and len(world[ORDERS].where(customer=SHOPPER)) > 40
    assert len({p.slug for p in world[PRODUCTS]}) == len({p.sku for p in world[PRODUCTS]})
    assert len({p.slug for p in world[PRODUCTS]}) == len(world[PRODUCTS])
    for order in world[ORDERS].where(customer=SHOPPER):
        items = world[ITEMS].where(order=order.id)
        assert sum(item.price * item.quantity for item in items) == order.subtotal
        assert order.name == world[CUSTOMERS].where(id=SHOPPER)[0].name == order.delivery[0]


def test_the_content_is_the_same_on_every_machine() -> None:
    assert embedded_base().digest("shop") == DIGEST


def test_every_link_of_the_front_page_leads_somewhere(visit: Visit) -> None:
    shop = visit("shop", ME).get("/")
    links = {link for link in Forms(shop.text).links if link.startswith("/")}
    assert len(links) > 50
    assert {shop.get(link).status for link in sorted(links)} == {200}


def test_a_category_is_narrowed_sorted_and_paged(visit: Visit) -> None:
    shop = visit("shop")
    leaf = next(c for c in shop.world[CATEGORIES] if c.path.count("/") == 2)
    products = shop.world[PRODUCTS].where(category=leaf.id)
    shop.get(f"/{leaf.path}.html?product_list_order=price&product_list_dir=desc&p=2")
    expected = sorted(products, key=lambda p: (p.price, p.id), reverse=True)[12:24]
    assert re.findall('class="product-item-link" href="/(.*?).html"', shop.text) == [
        p.slug for p in expected
    ]
    assert f"Items 13-24 of {len(products)}" in shop.text
    shop.get(f"/{leaf.path}.html?price=0-25")
    assert f" of {sum(p.price < 2500 for p in products)}</p>" in shop.text
    top = leaf.path.partition("/")[0]
    assert shop.get(f"/{top}.html").status == 200 and "of 288" in shop.text


def test_a_search_finds_names_and_says_when_nothing_is_found(visit: Visit) -> None:
    shop = visit("shop").get("/")
    shop.submit("/catalogsearch/result", q="yoga mat")
    assert "Search results for: &#39;yoga mat&#39;" in shop.text and "Yoga Mat" in shop.text
    assert "returned no results" in shop.get("/catalogsearch/result/?q=zzzz").text
    shop.get("/catalogsearch/advanced/").submit(
        "advanced/result", **{"name": "kettle", "price[from]": "20", "price[to]": "30"}
    )
    assert "Kettle" in shop.text


def test_a_product_is_bought(visit: Visit) -> None:
    shop, product = visit("shop", ME), product_with(options=True)
    page = f"/{product.slug}.html"
    shop.get(page).submit("/cart/add", qty="2")
    assert "choose options" in message(shop)
    chosen = {f"options[{name}]": values[0] for name, values in product.options}
    shop.get(page).submit("/cart/add", qty="2", **chosen)
    assert message(shop) == f"You added {product.name} to your shopping cart."
    (line,) = shop.world[CART].where(owner=f"customer:{ME}")
    shop.get("/checkout/cart/").submit("updatePost", **{f"cart[{line.id}][qty]": "3"})
    # Enter in a field presses the first button.
    assert shop.text.index("Update Shopping Cart") < shop.text.index("Remove item")
    shop.submit("couponPost", coupon_code="NOPE")
    assert "not valid" in message(shop)
    shop.submit("couponPost", coupon_code="H20")
    shop.get("/checkout/").submit("placeOrder", shipping_method="tablerate")
    order = max(shop.world[ORDERS], key=lambda order: order.id)
    assert (order.status, order.customer, order.subtotal) == ("pending", SHOPPER, product.price * 3)
    assert (order.discount, order.shipping) == (product.price * 3 // 5, 1500)
    assert order.number in shop.text and shop.world[CART].where(owner=f"customer:{ME}") == []
    left = shop.world[PRODUCTS].get(product.id)
    assert left is not None and left.stock == product.stock - 3
    assert "Ordered 3" in shop.get(f"/sales/order/view/order_id/{order.id}/").text


def test_more_than_there_is_cannot_be_bought(visit: Visit) -> None:
    shop, product = visit("shop", ME), product_with(options=False)
    shop.get(f"/{product.slug}.html").submit("/cart/add", qty=str(product.stock + 1))
    assert message(shop) == "The requested qty is not available"
    assert len(shop.world[CART]) == 0
    empty = next(p for p in shop.world[PRODUCTS] if p.stock == 0)
    assert "OUT OF STOCK" in shop.get(f"/{empty.slug}.html").text


def test_a_guest_keeps_the_cart_when_signing_in(visit: Visit) -> None:
    shop, product = visit("shop"), product_with(options=False)
    shop.get(f"/{product.slug}.html").submit("/cart/add", qty="1")
    email = shop.world[CUSTOMERS].where(id=SHOPPER)[0].email
    shop.get("/sales/order/history/")
    assert shop.path.startswith("/customer/account/login")
    shop.submit("loginPost", email=email, password="wrong")
    assert "incorrect" in message(shop)
    shop.submit("loginPost", email=email, password=PASSWORD)
    assert shop.path == "/sales/order/history" and "Welcome, Hana Marsh!" in shop.text
    assert [line.product for line in shop.world[CART].where(owner=f"customer:{ME}")] == [product.id]
    shop.get("/customer/account/logout/").submit("account/logout")
    assert "Sign In" in shop.text


def test_a_guest_orders_with_an_address(visit: Visit) -> None:
    shop, product = visit("shop"), product_with(options=False)
    shop.get(f"/{product.slug}.html").submit("/cart/add", qty="1")
    shop.get("/checkout/").submit("placeOrder", email="a@b.test")
    assert "shipping address" in message(shop)
    shop.submit("placeOrder", email="a@b.test", firstname="A", lastname="Bee", telephone="1",
        city="Rome", postcode="1", **{"street[0]": "1 Way"})  # fmt: skip
    assert "Thank you for your purchase!" in shop.text
    assert max(shop.world[ORDERS], key=lambda order: order.id).delivery[0] == "A Bee"


def test_an_order_is_ordered_again(visit: Visit) -> None:
    shop = visit("shop", ME)
    order, item = next(
        (order, items[0])
        for order in shop.world[ORDERS].where(customer=SHOPPER)
        if len(items := shop.world[ITEMS].where(order=order.id)) == 1
        and shop.world[PRODUCTS].where(id=items[0].product)[0].stock >= items[0].quantity
    )
    shop.get(f"/sales/order/view/order_id/{order.id}/").submit("reorder")
    (line,) = shop.world[CART].where(owner=f"customer:{ME}")
    assert (line.product, line.quantity, line.options) == (
        item.product,
        item.quantity,
        item.options,
    )


def test_orders_of_others_are_not_shown(visit: Visit) -> None:
    shop = visit("shop", ME)
    other = next(order for order in shop.world[ORDERS] if order.customer != SHOPPER)
    assert shop.get(f"/sales/order/view/order_id/{other.id}/").status == 404


def test_account_forms_change_the_tables(visit: Visit) -> None:
    shop, product = visit("shop", ME), product_with(options=False)
    world = shop.world
    shop.get("/customer/address/new/").submit("formPost", **{"street[0]": "231 Willow Way",
        "city": "Chicago", "region": "Illinois", "postcode": "60601", "telephone": "555",
        "default_shipping": "1"})  # fmt: skip
    assert [a.city for a in world[ADDRESSES].where(customer=SHOPPER) if a.is_shipping] == [
        "Chicago"
    ]
    address = max(world[ADDRESSES], key=lambda a: a.id)
    shop.get(f"/customer/address/edit/id/{address.id}/").submit("formPost", city="Gary")
    assert [a.city for a in world[ADDRESSES].where(customer=SHOPPER) if a.is_shipping] == ["Gary"]
    shop.post(f"/customer/address/delete/id/{address.id}/")
    assert "cannot be deleted" in message(shop)
    shop.get("/customer/account/edit/").submit("editPost", firstname="Hanna")
    assert "Welcome, Hanna Marsh!" in shop.text
    shop.get("/newsletter/manage/").submit("manage/save", is_subscribed="1")
    assert world[CUSTOMERS].where(id=SHOPPER)[0].newsletter
    shop.get(f"/{product.slug}.html").submit("/wishlist/index/add")
    assert [w.product for w in world[WISHES].where(customer=SHOPPER)][-1] == product.id
    shop.get("/contact/").submit("contact/index/post", comment="My lamp broke.")
    assert [(m.name, m.text) for m in world[MESSAGES]] == [("Hanna Marsh", "My lamp broke.")]
    shop.get("/").submit("newsletter/subscriber", email="New@mail.test")
    assert [s.email for s in world[SUBSCRIBERS]] == ["new@mail.test"]


def test_a_review_waits_for_approval(visit: Visit) -> None:
    shop, product = visit("shop", ME), product_with(options=False)
    shop.get(f"/{product.slug}.html").submit("review/product", title="Fine", detail="Good lid.")
    assert "Please fill in" in message(shop)
    shop.submit("review/product", title="Fine", detail="Good lid.", ratings="4")
    assert message(shop) == "You submitted your review for moderation."
    review = max(shop.world[REVIEWS], key=lambda review: review.id)
    assert (review.nickname, review.stars, review.status) == ("Hana", 4, "pending")
    assert "Good lid." not in shop.text
    assert "Good lid." in shop.get("/review/customer/").text


def test_an_account_is_made_once(visit: Visit) -> None:
    shop = visit("shop")
    fields = {"firstname": "Ada", "lastname": "Bo", "email": "ada@bo.test",
        "password": "secret.12", "password_confirmation": "secret.12"}  # fmt: skip
    shop.get("/customer/account/create/").submit("createpost", **fields)
    assert "Welcome, Ada Bo!" in shop.text
    again = Visitor(shop.network, shop.world, "http://shop.test/")
    again.get("/customer/account/create/").submit("createpost", **fields)
    assert "already an account" in message(again)


@pytest.mark.parametrize("path", ["/no-such.html", "/a/b/c", "/sales/order/view/order_id/0/"])
def test_what_is_not_there_is_said(visit: Visit, path: str) -> None:
    shop = visit("shop", ME).get(path)
    assert shop.status == 404 and "404 Not Found" in shop.text


def test_evaluators_find_the_newest_order_and_review(visit: Visit) -> None:
    shop, product = visit("shop", ME), product_with(options=False)
    service = WorldShop(shop.world)
    shop.get(f"/{product.slug}.html").submit("/cart/add", qty="1")
    shop.get("/checkout/").submit("placeOrder")
    shop.get(f"/{product.slug}.html").submit(
        "review/product", title="Fine", detail="Good lid.", ratings="4"
    )
    newest = f"{len(shop.world[ORDERS]):09d}"
    orders = asyncio.run(service.get("orders?searchCriteria[pageSize]=1"))
    assert orders == {"items": [{"increment_id": newest}]}
    reviews: Any = asyncio.run(service.get(f"products/{product.sku}/reviews"))
    assert reviews[-1] == {
        "nickname": "Hana",
        "ratings": [{"rating_name": "Rating", "percent": 80}],
    }
    with pytest.raises(LookupError, match="customers"):
        asyncio.run(service.get("customers"))
