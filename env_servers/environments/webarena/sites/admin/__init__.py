"""The shop's administration: orders, products, customers, reviews, rules, reports."""

from env_servers.environments.webarena.sites.admin import (
    catalog,
    customers,
    marketing,
    reports,
    sales,
)
from env_servers.environments.webarena.sites.admin.frame import ADMIN

__all__ = ["ADMIN", "catalog", "customers", "marketing", "reports", "sales"]
