"""The shop's cart and checkout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from env_servers.environments.webarena.sites.shop.addresses import read_address
from env_servers.environments.webarena.sites.shop.frame import SHOP, cart_owner, customer_of
from env_servers.environments.webarena.sites.shop.rows import (
    ADDRESSES,
    CART,
    COUPONS,
    ITEMS,
    ORDERS,
    PRODUCTS,
    RULES,
    CartCoupon,
    CartLine,
    CartRule,
    Customer,
    Item,
    Options,
    Order,
    Product,
)
from env_servers.environments.webarena.sites.shop.trade import PAYMENTS
from env_servers.environments.webarena.sites.visit import Missing, Visit
from env_servers.environments.webarena.sites.world import World

__all__ = ["Bill", "add_to_cart", "bill_of", "chosen_options"]

MAX_QUANTITY: Final = 10_000
METHODS: Final = {
    "flatrate": ("Flat Rate - Fixed", 500),
    "tablerate": ("Best Way - Table Rate", 1500),
}


@dataclass(frozen=True, slots=True)
class Bill:
    """What a cart costs."""

    lines: tuple[tuple[CartLine, Product], ...]
    subtotal: int
    discount: int
    coupon: str

    @property
    def quantity(self) -> int:
        """Pieces in the cart."""
        return sum(line.quantity for line, _ in self.lines)

    def shipping(self, method: str) -> int:
        """What a way of shipping costs: the flat rate is for each piece."""
        price = METHODS[method][1]
        return price * self.quantity if method == "flatrate" else price


def bill_of(world: World, owner: str, group: str = "Not Logged In") -> Bill:
    """Return what somebody's cart costs, by the rules for carts."""
    products = world[PRODUCTS]
    pairs = [(line, products.get(line.product)) for line in world[CART].where(owner=owner)]
    lines = tuple((line, p) for line, p in pairs if p is not None and p.enabled)
    subtotal = sum(product.price * line.quantity for line, product in lines)
    entered = world[COUPONS].get(owner)
    code = entered.code if entered is not None else ""
    rules = [r for r in world[RULES] if _applies(world, r, group) and r.coupon in ("", code)]
    off = sum(_discount(rule, subtotal) for rule in rules)
    used = code if any(rule.coupon == code for rule in rules) else ""
    return Bill(lines, subtotal, min(off, subtotal), used)


def _applies(world: World, rule: CartRule, group: str) -> bool:
    today = world.now.date()
    begun = rule.starts is None or rule.starts <= today
    ended = rule.ends is not None and rule.ends < today
    return rule.active and begun and not ended and group in rule.groups


def _discount(rule: CartRule, subtotal: int) -> int:
    return subtotal * rule.amount // 100 if rule.kind == "by_percent" else rule.amount


def _bill(visit: Visit) -> Bill:
    customer = customer_of(visit)
    group = customer.group if customer is not None else "Not Logged In"
    return bill_of(visit.world, cart_owner(visit), group)


def chosen_options(visit: Visit, product: Product) -> Options | None:
    """Return the options that a form names; None if one is missing."""
    chosen = tuple((name, visit.form.text(f"options[{name}]")) for name, _ in product.options)
    allowed = dict(product.options)
    return chosen if all(value in allowed[name] for name, value in chosen) else None


def add_to_cart(visit: Visit, product: Product, options: Options, quantity: int) -> str:
    """Put a product into the visitor's cart; returns why not, or nothing."""
    if not product.enabled or product.stock < 1:
        return "This product is out of stock."
    visit.known_session()
    cart, owner = visit.world[CART], cart_owner(visit)
    line = next(
        (line for line in cart.where(owner=owner, product=product.id) if line.options == options),
        CartLine(cart.next_id, owner, product.id, options, 0),
    )
    if line.quantity + quantity > product.stock:
        return "The requested qty is not available"
    cart.put(CartLine(line.id, owner, product.id, options, line.quantity + quantity))
    return ""


@SHOP.form("/checkout/cart/add/product/{id:int}", signed_in=False)
def add(visit: Visit) -> Response:
    """Put a product into the cart."""
    product = visit.world[PRODUCTS].get(visit.parameters["id"])
    if product is None:
        raise Missing
    path, options = f"/{product.slug}.html", chosen_options(visit, product)
    if options is None:
        return visit.redirect(path, "You need to choose options for your item.", failed=True)
    quantity = visit.form.number("qty", 0, high=MAX_QUANTITY)
    if quantity < 1:
        return visit.redirect(path, "Please enter a quantity greater than 0.", failed=True)
    refusal = add_to_cart(visit, product, options, quantity)
    if refusal:
        return visit.redirect(path, refusal, failed=True)
    return visit.back(path, f"You added {product.name} to your shopping cart.")


@SHOP.page("/checkout/cart")
def cart(visit: Visit) -> Response:
    """Show the cart."""
    return visit.render("cart.html", bill=_bill(visit))


@SHOP.form("/checkout/cart/updatePost", signed_in=False)
def update_cart(visit: Visit) -> Response:
    """Change the quantities; 0 removes a line."""
    refused = False
    for line, product in _bill(visit).lines:
        name = f"cart[{line.id}][qty]"
        wanted = visit.form.number(name, line.quantity, high=MAX_QUANTITY)
        if wanted == 0:
            visit.world[CART].remove(line.id)
        elif wanted > product.stock:
            refused = True
        elif wanted != line.quantity:
            visit.world[CART].change(line.id, quantity=wanted)
    text = "The requested qty is not available" if refused else ""
    return visit.redirect("/checkout/cart/", text, failed=refused)


@SHOP.form("/checkout/cart/delete/id/{id:int}", signed_in=False)
def remove_from_cart(visit: Visit) -> Response:
    """Take a line out of the cart."""
    line = visit.world[CART].get(visit.parameters["id"])
    if line is not None and line.owner == cart_owner(visit):
        visit.world[CART].remove(line.id)
    return visit.redirect("/checkout/cart/")


@SHOP.form("/checkout/cart/couponPost", signed_in=False)
def enter_coupon(visit: Visit) -> Response:
    """Use a coupon, or no longer."""
    code, owner = visit.form.text("coupon_code"), cart_owner(visit)
    if not owner or visit.form.text("remove") == "1":
        visit.world[COUPONS].remove(owner)
        return visit.redirect("/checkout/cart/", "You canceled the coupon code.")
    before = visit.world[COUPONS].get(owner)
    visit.world[COUPONS].put(CartCoupon(owner, code))
    if code and _bill(visit).coupon == code:
        return visit.redirect("/checkout/cart/", f'You used coupon code "{code}".')
    if before is None:
        visit.world[COUPONS].remove(owner)
    else:
        visit.world[COUPONS].put(before)
    return visit.redirect("/checkout/cart/", f'The coupon code "{code}" is not valid.', failed=True)


@SHOP.page("/checkout")
def checkout(visit: Visit) -> Response:
    """Ask for address, shipping and payment."""
    bill, customer = _bill(visit), customer_of(visit)
    if not bill.lines:
        return visit.redirect("/checkout/cart/")
    addresses = visit.world[ADDRESSES].where(customer=customer.id) if customer is not None else []
    methods = [(key, name, bill.shipping(key)) for key, (name, _) in METHODS.items()]
    return visit.render(
        "checkout.html", bill=bill, addresses=addresses, methods=methods, payments=PAYMENTS
    )


@SHOP.form("/checkout/placeOrder", signed_in=False)
def place_order(visit: Visit) -> Response:
    """Make the cart an order."""
    world, form, bill, customer = visit.world, visit.form, _bill(visit), customer_of(visit)
    if not bill.lines:
        return visit.redirect("/checkout/cart/")
    lines = _delivery(visit, customer)
    email = customer.email if customer is not None else form.text("email")
    if lines is None or "@" not in email:
        text = "Please fill in the shipping address and a valid e-mail address."
        return visit.redirect("/checkout/", text, failed=True)
    if any(line.quantity > product.stock for line, product in bill.lines):
        return visit.redirect("/checkout/cart/", "Some products are out of stock.", failed=True)
    method = form.choice("shipping_method", METHODS, "flatrate")
    order = Order(
        world[ORDERS].next_id,
        customer.id if customer is not None else 0,
        email,
        customer.name if customer is not None else lines[0],
        world.now,
        "pending",
        bill.subtotal,
        bill.shipping(method),
        bill.discount,
        bill.coupon,
        METHODS[method][0],
        form.choice("payment", PAYMENTS, PAYMENTS[0]),
        lines,
        lines,
    )
    world[ORDERS].put(order)
    _move_items(world, order, bill)
    world[COUPONS].remove(cart_owner(visit))
    return visit.redirect(f"/checkout/onepage/success/?order={order.id}")


def _delivery(visit: Visit, customer: Customer | None) -> tuple[str, ...] | None:
    """Return the lines of the address that a form chooses or has; None if it has none."""
    saved = visit.world[ADDRESSES].get(visit.form.number("address"))
    if saved is not None and customer is not None and saved.customer == customer.id:
        return saved.lines
    address = read_address(visit, 0, 0, customer.name if customer is not None else "")
    return address.lines if address is not None else None


def _move_items(world: World, order: Order, bill: Bill) -> None:
    items = world[ITEMS]
    for line, product in bill.lines:
        items.put(
            Item(
                items.next_id,
                order.id,
                product.id,
                product.name,
                product.sku,
                line.options,
                product.price,
                line.quantity,
            )
        )
        left = world[PRODUCTS].get(product.id)
        if left is not None:
            world[PRODUCTS].change(product.id, stock=max(0, left.stock - line.quantity))
        world[CART].remove(line.id)


@SHOP.page("/checkout/onepage/success")
def success(visit: Visit) -> Response:
    """Thank for an order."""
    order = visit.world[ORDERS].get(visit.query.number("order"))
    if order is None or order.customer != int(visit.account or 0):
        return visit.redirect("/checkout/cart/")
    return visit.render("success.html", order=order)
