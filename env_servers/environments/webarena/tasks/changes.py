"""What an episode has changed in a table, for checks that want one change and nothing else."""

from __future__ import annotations

from env_servers.environments.webarena.sites.tables import Row, Table
from env_servers.environments.webarena.sites.world import World

__all__ = ["changed_rows", "only_change"]


def changed_rows(world: World, table: Table[Row]) -> list[Row] | None:
    """Return the rows that are new or differ from the base; None where one was removed."""
    base, records = world.base.content(table).rows, world[table]
    if any(records.get(key) is None for key in base):
        return None
    return [row for row in records if base.get(table.key_of(row)) != row]


def only_change(world: World, table: Table[Row]) -> Row | None:
    """Return the row that alone is new or differs from the base; None where it is not one."""
    rows = changed_rows(world, table)
    return rows[0] if rows is not None and len(rows) == 1 else None
