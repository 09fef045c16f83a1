"""What an episode has changed in a table, for checks that want one change and nothing else."""

from __future__ import annotations

from env_servers.environments.webarena.sites.tables import Row, Table
from env_servers.environments.webarena.sites.world import World

__all__ = ["changed_rows", "only_change", "only_removal"]


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


def only_removal(world: World, table: Table[Row]) -> Row | None:
    """Return the row that was removed while all others are as in the base; None otherwise."""
    base, records = world.base.content(table).rows, world[table]
    gone = [row for key, row in base.items() if records.get(key) is None]
    is_all = len(gone) == 1 and all(base.get(table.key_of(row)) == row for row in records)
    return gone[0] if is_all else None
