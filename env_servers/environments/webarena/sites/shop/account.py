"""The shop's customers: sign-in, account, orders, wish list, newsletter, contact."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.shop.buying import add_to_cart
from env_servers.environments.webarena.sites.shop.frame import SHOP, cart_owner, me
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CART,
    CUSTOMERS,
    ITEMS,
    MESSAGES,
    NOTES,
    ORDERS,
    PRODUCTS,
    REVIEWS,
    SHIPMENTS,
    SUBSCRIBERS,
    WISHES,
    Customer,
    Message,
    Order,
    Subscriber,
    Wish,
)
from env_servers.environments.webarena.sites.visit import Missing, Visit

__all__: list[str] = []

_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}\.[^@\s.]{2,20}")
_MIN_PASSWORD: Final = 8
PER_PAGE: Final = 10


@SHOP.page("/customer/account/login")
def ask(visit: Visit) -> Response:
    """Ask who the visitor is."""
    return visit.render("login.html", back=visit.query.text("back"))


@SHOP.form("/customer/account/loginPost", signed_in=False)
def sign_in(visit: Visit) -> Response:
    """Sign a customer in, with what is in the cart."""
    form, back = visit.form, visit.form.text("back")
    found = visit.world[CUSTOMERS].where(email=form.text("email").lower())
    if not found or found[0].password != form.text("password"):
        text = "The account sign-in was incorrect or your account is disabled temporarily."
        return visit.redirect(f"/customer/account/login/?back={quote(back)}", text, failed=True)
    _enter(visit, found[0])
    return visit.redirect(back or "/customer/account/")


def _enter(visit: Visit, customer: Customer) -> None:
    lines = visit.world[CART].where(owner=cart_owner(visit)) if visit.session is not None else []
    visit.sign_in(str(customer.id))
    for line in lines:
        visit.world[CART].change(line.id, owner=cart_owner(visit))


@SHOP.page("/customer/account/logout")
def goodbye(visit: Visit) -> Response:
    """Ask whether to sign out: a page changes nothing by itself."""
    return visit.render("logout.html")


@SHOP.form("/customer/account/logout", signed_in=False)
def sign_out(visit: Visit) -> Response:
    """Sign out."""
    visit.sign_out()
    return visit.redirect("/", "You are signed out.")


@SHOP.page("/customer/account/create")
def create(visit: Visit) -> Response:
    """Show the form for a new account."""
    return visit.render("create.html")


@SHOP.form("/customer/account/createpost", signed_in=False)
def make_account(visit: Visit) -> Response:
    """Make an account and sign its owner in."""
    form, customers = visit.form, visit.world[CUSTOMERS]
    email, first, last = form.text("email").lower(), form.text("firstname"), form.text("lastname")
    again = "/customer/account/create/"
    if not first or not last or _EMAIL.fullmatch(email) is None:
        return visit.redirect(again, "Please fill in your name and a valid e-mail.", failed=True)
    if customers.where(email=email):
        return visit.redirect(again, "There is already an account with this e-mail.", failed=True)
    password = form.text("password")
    if len(password) < _MIN_PASSWORD or password != form.text("password_confirmation"):
        text = "Enter the same password twice, of 8 characters or more."
        return visit.redirect(again, text, failed=True)
    now, news = visit.world.now, "is_subscribed" in form
    customer = Customer(customers.next_id, email, password, first, last, "General", now, news)
    _enter(visit, customers.put(customer))
    return visit.redirect("/customer/account/", "Thank you for registering with OneStopShop.")


@SHOP.page("/customer/account", signed_in=True)
def account(visit: Visit) -> Response:
    """Show name, address and the last orders."""
    addresses = visit.world[ADDRESSES].where(customer=me(visit).id)
    return visit.render("account.html", orders=_orders(visit)[:5], addresses=addresses)


@SHOP.page("/customer/account/edit", signed_in=True)
def edit_account(visit: Visit) -> Response:
    """Show the form for name, e-mail and password."""
    return visit.render("edit_account.html")


@SHOP.form("/customer/account/editPost")
def change_account(visit: Visit) -> Response:
    """Change name, e-mail and password."""
    form, own, customers = visit.form, me(visit), visit.world[CUSTOMERS]
    first, last, email = form.text("firstname"), form.text("lastname"), form.text("email").lower()
    page = "/customer/account/edit/"
    if not first or not last or _EMAIL.fullmatch(email) is None:
        return visit.redirect(page, "Please fill in your name and a valid e-mail.", failed=True)
    if any(other.id != own.id for other in customers.where(email=email)):
        return visit.redirect(page, "There is already an account with this e-mail.", failed=True)
    password = form.text("password")
    if (password or email != own.email) and form.text("current_password") != own.password:
        return visit.redirect(page, "The current password is not correct.", failed=True)
    if password and (len(password) < _MIN_PASSWORD or password != form.text("confirmation")):
        text = "Enter the same password twice, of 8 characters or more."
        return visit.redirect(page, text, failed=True)
    customers.change(
        own.id, first_name=first, last_name=last, email=email, password=password or own.password
    )
    return visit.redirect("/customer/account/", "You saved the account information.")


def _orders(visit: Visit) -> list[Order]:
    orders = visit.world[ORDERS].where(customer=me(visit).id)
    return sorted(orders, key=lambda order: (order.created, order.id), reverse=True)


@SHOP.page("/sales/order/history", signed_in=True)
def history(visit: Visit) -> Response:
    """Show the customer's orders."""
    page = cut(_orders(visit), visit.query.number("p", 1), PER_PAGE)
    return visit.render("history.html", page=page)


def _order(visit: Visit) -> Order:
    order = visit.world[ORDERS].get(visit.parameters["id"])
    if order is None or order.customer != me(visit).id:
        raise Missing
    return order


@SHOP.page("/sales/order/view/order_id/{id:int}", signed_in=True)
def view_order(visit: Visit) -> Response:
    """Show one order."""
    order, world = _order(visit), visit.world
    return visit.render(
        "order.html",
        order=order,
        items=world[ITEMS].where(order=order.id),
        notes=[note for note in world[NOTES].where(order=order.id) if note.visible],
        shipments=world[SHIPMENTS].where(order=order.id),
    )


@SHOP.form("/sales/order/reorder/order_id/{id:int}")
def reorder(visit: Visit) -> Response:
    """Put what an order had into the cart."""
    refused: list[str] = []
    for item in visit.world[ITEMS].where(order=_order(visit).id):
        product = visit.world[PRODUCTS].get(item.product)
        if product is None or add_to_cart(visit, product, item.options, item.quantity):
            refused.append(item.name)
    text = f"Not available: {', '.join(refused)}" if refused else ""
    return visit.redirect("/checkout/cart/", text, failed=bool(refused))


@SHOP.page("/wishlist", "/wishlist/index/index", signed_in=True)
def wish_list(visit: Visit) -> Response:
    """Show the wish list."""
    world = visit.world
    pairs = [
        (w, world[PRODUCTS].get(w.product)) for w in world[WISHES].where(customer=me(visit).id)
    ]
    return visit.render("wishes.html", wishes=[pair for pair in pairs if pair[1] is not None])


@SHOP.form("/wishlist/index/add/product/{id:int}")
def wish(visit: Visit) -> Response:
    """Put a product on the wish list."""
    product, wishes = visit.world[PRODUCTS].get(visit.parameters["id"]), visit.world[WISHES]
    if product is None:
        raise Missing
    own = me(visit).id
    known = wishes.where(customer=own, product=product.id)
    if known:
        wishes.change(known[0].id, quantity=known[0].quantity + 1)
    else:
        wishes.put(Wish(wishes.next_id, own, product.id, 1, "", visit.world.now))
    text = f"{product.name} has been added to your Wish List. Click here to continue shopping."
    return visit.redirect("/wishlist/", text)


@SHOP.form("/wishlist/index/update")
def update_wishes(visit: Visit) -> Response:
    """Change comments and quantities of the wish list; 0 removes a product."""
    wishes = visit.world[WISHES]
    for entry in wishes.where(customer=me(visit).id):
        quantity = visit.form.number(f"qty[{entry.id}]", entry.quantity, high=10_000)
        comment = visit.form.text(f"description[{entry.id}]", entry.comment)
        if quantity == 0:
            wishes.remove(entry.id)
        elif (quantity, comment) != (entry.quantity, entry.comment):
            wishes.change(entry.id, quantity=quantity, comment=comment)
    return visit.redirect("/wishlist/", "Your Wish List has been updated.")


@SHOP.form("/wishlist/index/remove/item/{id:int}")
def unwish(visit: Visit) -> Response:
    """Take a product off the wish list."""
    entry = visit.world[WISHES].get(visit.parameters["id"])
    if entry is not None and entry.customer == me(visit).id:
        visit.world[WISHES].remove(entry.id)
    return visit.redirect("/wishlist/", "The product has been removed from your Wish List.")


@SHOP.page("/review/customer", signed_in=True)
def my_reviews(visit: Visit) -> Response:
    """Show what the customer wrote."""
    world = visit.world
    mine = world[REVIEWS].where(customer=me(visit).id)[::-1]
    return visit.render(
        "my_reviews.html", reviews=[(r, world[PRODUCTS].get(r.product)) for r in mine]
    )


@SHOP.page("/newsletter/manage", signed_in=True)
def newsletter(visit: Visit) -> Response:
    """Show whether the customer gets the newsletter."""
    return visit.render("newsletter.html")


@SHOP.form("/newsletter/manage/save")
def change_newsletter(visit: Visit) -> Response:
    """Subscribe to the newsletter, or no longer."""
    wanted = "is_subscribed" in visit.form
    visit.world[CUSTOMERS].change(me(visit).id, newsletter=wanted)
    text = (
        "We have saved your subscription."
        if wanted
        else "We have removed your newsletter subscription."
    )
    return visit.redirect("/customer/account/", text)


@SHOP.form("/newsletter/subscriber/new", signed_in=False)
def subscribe(visit: Visit) -> Response:
    """Subscribe an address to the newsletter."""
    email = visit.form.text("email").lower()
    if _EMAIL.fullmatch(email) is None:
        return visit.back("/", "Please enter a valid e-mail address.", failed=True)
    for customer in visit.world[CUSTOMERS].where(email=email):
        visit.world[CUSTOMERS].change(customer.id, newsletter=True)
    visit.world[SUBSCRIBERS].put(Subscriber(email, visit.world.now))
    return visit.back("/", "Thank you for your subscription.")


@SHOP.page("/contact", "/contact/index")
def contact(visit: Visit) -> Response:
    """Show the contact form."""
    return visit.render("contact.html")


@SHOP.form("/contact/index/post", signed_in=False)
def write(visit: Visit) -> Response:
    """Take a message."""
    form, messages = visit.form, visit.world[MESSAGES]
    name, email, text = form.text("name"), form.text("email"), form.text("comment")
    if not name or not text or _EMAIL.fullmatch(email) is None:
        return visit.redirect("/contact/", "Please fill in name, e-mail and message.", failed=True)
    phone = form.text("telephone")
    messages.put(Message(messages.next_id, name, email, phone, text, visit.world.now))
    thanks = "Thanks for contacting us. We'll respond to you very soon."
    return visit.redirect("/contact/", thanks)
