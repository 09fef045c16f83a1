"""What the shop and its administration keep: the tables of the database `shop`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from env_servers.environments.webarena.sites.tables import Table

__all__ = [
    "ADDRESSES",
    "CART",
    "CATEGORIES",
    "COUPONS",
    "CUSTOMERS",
    "INVOICES",
    "ITEMS",
    "MESSAGES",
    "NOTES",
    "ORDERS",
    "PAGES",
    "PRODUCTS",
    "REVIEWS",
    "RULES",
    "SHIPMENTS",
    "STATUSES",
    "SUBSCRIBERS",
    "TERMS",
    "WISHES",
    "Address",
    "CartCoupon",
    "CartLine",
    "CartRule",
    "Category",
    "Customer",
    "Invoice",
    "Item",
    "Message",
    "Note",
    "Options",
    "Order",
    "Page",
    "Product",
    "Review",
    "SearchTerm",
    "Shipment",
    "Subscriber",
    "Wish",
    "status_name",
]

Options = tuple[tuple[str, str], ...]
"""Name and chosen value of each option."""


@dataclass(frozen=True, slots=True)
class Category:
    """A shelf of the shop; the leaves hold the products."""

    id: int
    name: str
    path: str
    """Part of its address: `electronics/audio/headphones`."""
    parent: int
    """0 at the top."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product; in `facts` is what its page lists under More Information."""

    id: int
    sku: str
    name: str
    slug: str
    brand: str
    category: int
    price: int
    """What it costs, in cents."""
    list_price: int
    """What it cost before, in cents, if it is on sale; otherwise 0."""
    options: tuple[tuple[str, tuple[str, ...]], ...]
    facts: tuple[tuple[str, str], ...]
    description: str
    stock: int
    enabled: bool
    created: date


@dataclass(frozen=True, slots=True)
class Review:
    """What somebody wrote about a product; only approved ones are shown."""

    id: int
    product: int
    customer: int
    """0 for a guest."""
    nickname: str
    title: str
    text: str
    stars: int
    created: datetime
    status: str
    """`approved`, `pending` or `rejected`."""


@dataclass(frozen=True, slots=True)
class Customer:
    """Somebody with an account at the shop."""

    id: int
    email: str
    password: str
    first_name: str
    last_name: str
    group: str
    """`General`, `Wholesale` or `Retailer`."""
    created: datetime
    newsletter: bool

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"


@dataclass(frozen=True, slots=True)
class Address:
    """An entry of a customer's address book."""

    id: int
    customer: int
    name: str
    company: str
    street: str
    city: str
    state: str
    postcode: str
    country: str
    phone: str
    is_billing: bool
    """The one that bills go to unless another is chosen."""
    is_shipping: bool

    @property
    def lines(self) -> tuple[str, ...]:
        """The address as it is printed."""
        town = f"{self.city}, {self.state}, {self.postcode}"
        lines = (self.name, self.company, self.street, town, self.country, f"T: {self.phone}")
        return tuple(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class Order:
    """What a customer bought, with everything that was agreed then."""

    id: int
    customer: int
    email: str
    name: str
    created: datetime
    status: str
    """`pending`, `processing`, `complete`, `canceled`, `closed`, `holded` or `fraud`."""
    subtotal: int
    shipping: int
    discount: int
    coupon: str
    shipping_method: str
    payment_method: str
    billing: tuple[str, ...]
    """Lines of the address."""
    delivery: tuple[str, ...]

    @property
    def number(self) -> str:
        """Return the number that pages show."""
        return f"{self.id:09d}"

    @property
    def total(self) -> int:
        """What the customer pays, in cents."""
        return self.subtotal + self.shipping - self.discount


@dataclass(frozen=True, slots=True)
class Item:
    """One line of an order."""

    id: int
    order: int
    product: int
    name: str
    sku: str
    options: Options
    price: int
    quantity: int


@dataclass(frozen=True, slots=True)
class Note:
    """A comment in the history of an order."""

    id: int
    order: int
    created: datetime
    status: str
    text: str
    notified: bool
    """The customer got it by mail."""
    visible: bool
    """It is shown on the order's page in the shop."""


@dataclass(frozen=True, slots=True)
class Invoice:
    """The bill of an order."""

    id: int
    order: int
    created: datetime
    total: int
    refunded: bool

    @property
    def number(self) -> str:
        """Return the number that pages show."""
        return f"{self.id:09d}"


@dataclass(frozen=True, slots=True)
class Shipment:
    """A parcel of an order; carrier and number are empty while nobody entered them."""

    id: int
    order: int
    created: datetime
    carrier: str
    tracking: str

    @property
    def number(self) -> str:
        """Return the number that pages show."""
        return f"{self.id:09d}"


@dataclass(frozen=True, slots=True)
class CartLine:
    """A product in somebody's cart."""

    id: int
    owner: str
    """A customer (`customer:12`) or a guest's session (`guest:<id>`)."""
    product: int
    options: Options
    quantity: int


@dataclass(frozen=True, slots=True)
class CartCoupon:
    """The coupon that somebody entered for a cart."""

    owner: str
    code: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A product on a customer's wish list."""

    id: int
    customer: int
    product: int
    quantity: int
    comment: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody wrote by the contact form."""

    id: int
    name: str
    email: str
    phone: str
    text: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An address that gets the newsletter without an account."""

    email: str
    created: datetime


@dataclass(frozen=True, slots=True)
class CartRule:
    """A rule that makes carts cheaper, for everybody or by a coupon."""

    id: int
    name: str
    description: str
    active: bool
    groups: tuple[str, ...]
    coupon: str
    """Empty: the rule needs no coupon."""
    starts: date | None
    ends: date | None
    kind: str
    """`by_percent` or `cart_fixed`."""
    amount: int
    """Percent, or cents off the whole cart."""
    uses: int


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """What customers searched for."""

    id: int
    text: str
    results: int
    uses: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of text that the administration edits."""

    id: int
    path: str
    title: str
    text: str
    enabled: bool


STATUSES: Final = {
    "pending": "Pending",
    "processing": "Processing",
    "complete": "Complete",
    "canceled": "Canceled",
    "closed": "Closed",
    "holded": "On Hold",
    "fraud": "Suspected Fraud",
}
"""What the states of an order are called."""


def status_name(status: str) -> str:
    """Return what the state of an order is called."""
    return STATUSES[status]


def _searched(product: Product) -> str:
    facts = " ".join(f"{name} {value}" for name, value in product.facts)
    return f"{product.name} {product.name} {product.brand} {facts} {product.description}"


CATEGORIES: Final = Table("shop.categories", Category, indexed=("path", "parent"))
PRODUCTS: Final = Table(
    "shop.products", Product, indexed=("category", "slug", "sku"), text=_searched
)
REVIEWS: Final = Table("shop.reviews", Review, indexed=("product", "customer", "status"))
CUSTOMERS: Final = Table("shop.customers", Customer, indexed=("email",))
ADDRESSES: Final = Table("shop.addresses", Address, indexed=("customer",))
ORDERS: Final = Table("shop.orders", Order, indexed=("customer", "status"))
ITEMS: Final = Table("shop.items", Item, indexed=("order", "product"))
NOTES: Final = Table("shop.notes", Note, indexed=("order",))
INVOICES: Final = Table("shop.invoices", Invoice, indexed=("order",))
SHIPMENTS: Final = Table("shop.shipments", Shipment, indexed=("order",))
CART: Final = Table("shop.cart", CartLine, indexed=("owner",))
COUPONS: Final = Table("shop.coupons", CartCoupon, key="owner")
WISHES: Final = Table("shop.wishes", Wish, indexed=("customer",))
MESSAGES: Final = Table("shop.messages", Message)
SUBSCRIBERS: Final = Table("shop.subscribers", Subscriber, key="email")
RULES: Final = Table("shop.rules", CartRule, indexed=("coupon",))
TERMS: Final = Table("shop.terms", SearchTerm, indexed=("text",))
PAGES: Final = Table("shop.pages", Page, indexed=("path",))
