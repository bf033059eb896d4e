"""`docs/sql/system-tables.md` speaks of the tables that there are."""

from __future__ import annotations

from tests.docs import system_tables

from bucketlake.ops.system.registry import SYSTEM_TABLES


def test_the_page_of_system_tables_is_what_the_registry_says() -> None:
    assert system_tables.PAGE.read_text() == system_tables.page(), "run: python -m tests.docs.system_tables"


def test_every_column_has_a_meaning() -> None:
    for table in SYSTEM_TABLES.values():
        assert {item.name for item in table.fields} <= set(table.about), table.name
        assert {*table.key} <= {item.name for item in table.fields}
