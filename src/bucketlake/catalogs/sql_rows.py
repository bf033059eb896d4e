"""The tables that a SQL catalog keeps in its database, as Apache Paimon has them, and statements on them.

    paimon_tables                  (catalog_key, database_name, table_name)
    paimon_database_properties     (catalog_key, database_name, property_key, property_value)
    paimon_table_properties        (catalog_key, database_name, table_name, property_key, property_value)
    paimon_views                   (catalog_key, database_name, view_name, view_schema)
    paimon_distributed_locks       (lock_id, acquired_at, expire_time_seconds)

Names are compared here, not by the database alone: MySQL's usual order takes `T` for `t`.

Spec: docs/catalogs.md#sql
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from bucketlake.env.database import MYSQL, Database
from bucketlake.errors import AlreadyExistsError, InvalidError, StorageError

EXISTS = "exists"  # the property that says no more than that its database is there
TABLES, DATABASES = "paimon_tables", "paimon_database_properties"
PROPERTIES, VIEWS, LOCKS = "paimon_table_properties", "paimon_views", "paimon_distributed_locks"
LONGEST_VALUE = 1000
_NAME = "VARCHAR(255) NOT NULL"
_DEFINED = {
    TABLES: f"(catalog_key {_NAME}, database_name {_NAME}, table_name {_NAME}, "
    "PRIMARY KEY (catalog_key, database_name, table_name))",
    DATABASES: f"(catalog_key {_NAME}, database_name {_NAME}, property_key VARCHAR(255), "
    f"property_value VARCHAR({LONGEST_VALUE}), PRIMARY KEY (catalog_key, database_name, property_key))",
    PROPERTIES: f"(catalog_key {_NAME}, database_name {_NAME}, table_name {_NAME}, property_key {_NAME}, "
    f"property_value VARCHAR({LONGEST_VALUE}), "
    "PRIMARY KEY (catalog_key, database_name, table_name, property_key))",
    VIEWS: f"(catalog_key {_NAME}, database_name {_NAME}, view_name {_NAME}, view_schema TEXT NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, view_name))",
    LOCKS: "(lock_id VARCHAR({length}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id))",
}
# Four names are more bytes than a key of MySQL's takes in its usual character set.
_SMALLER = {PROPERTIES: " CHARACTER SET utf8mb3"}


class Rows:
    """The rows of one catalog key. Nothing is cached."""

    def __init__(self, database: Database, key: str) -> None:
        self.database = database
        self.key = key

    def prepare(self, with_locks: bool, length: int) -> None:
        """Make the tables that are not there yet."""
        for table in _DEFINED:
            if table == LOCKS and not with_locks:
                continue
            if not self._is_there(table):
                made = _DEFINED[table].replace("{length}", str(length))
                suffix = _SMALLER.get(table, "") if self.database.kind == MYSQL else ""
                try:
                    self.database.change(f"CREATE TABLE IF NOT EXISTS {table} {made}{suffix}")
                except (StorageError, AlreadyExistsError):
                    if not self._is_there(table):  # else another has just made it
                        raise

    def _is_there(self, table: str) -> bool:
        try:
            self.database.query(f"SELECT 1 FROM {table} WHERE 1 = 0")
        except StorageError:
            self.database.query("SELECT 1")  # raises where the database itself is the matter
            return False
        return True

    # ---- databases

    def databases(self) -> set[str]:
        """Names of all that have a property, a table or a view."""
        found: set[str] = set()
        for table in (TABLES, DATABASES, VIEWS):
            statement = f"SELECT DISTINCT database_name FROM {table} WHERE catalog_key = ?"
            found |= {str(row[0]) for row in self.database.query(statement, (self.key,))}
        return found

    def has_database(self, name: str) -> bool:
        """Whether there is one of this name."""
        for table in (DATABASES, TABLES, VIEWS):
            statement = f"SELECT DISTINCT database_name FROM {table} WHERE catalog_key = ? AND database_name = ?"
            if (name,) in self.database.query(statement, (self.key, name)):
                return True
        return False

    def database_properties(self, name: str) -> dict[str, str]:
        """Its properties but `exists`."""
        statement = (
            f"SELECT database_name, property_key, property_value FROM {DATABASES} "
            "WHERE catalog_key = ? AND database_name = ?"
        )
        rows = self.database.query(statement, (self.key, name))
        return {key: value or "" for own, key, value in rows if own == name and key != EXISTS}

    def add_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Insert one; AlreadyExistsError if it is there."""
        _check_values(properties)
        statement = (
            f"INSERT INTO {DATABASES} (catalog_key, database_name, property_key, property_value) VALUES (?, ?, ?, ?)"
        )
        with self.database.transaction() as change:
            for key, value in {EXISTS: "true", **properties}.items():
                change(statement, (self.key, name, key, value))

    def change_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set and remove properties."""
        _check_values(changes)
        remove = f"DELETE FROM {DATABASES} WHERE catalog_key = ? AND database_name = ? AND property_key = ?"
        insert = (
            f"INSERT INTO {DATABASES} (catalog_key, database_name, property_key, property_value) VALUES (?, ?, ?, ?)"
        )
        with self.database.transaction() as change:
            for key, value in changes.items():
                change(remove, (self.key, name, key))
                if value is not None:
                    change(insert, (self.key, name, key, value))

    def remove_database(self, name: str) -> None:
        """Delete one with its tables and views."""
        with self.database.transaction() as change:
            for table in (TABLES, DATABASES, PROPERTIES, VIEWS):
                change(f"DELETE FROM {table} WHERE catalog_key = ? AND database_name = ?", (self.key, name))

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted."""
        return self._names(TABLES, "table_name", database)

    def has_table(self, database: str, table: str) -> bool:
        """Whether the table is known."""
        return self._has(TABLES, "table_name", database, table)

    def add_table(self, database: str, table: str) -> bool:
        """Insert one; False if it is there."""
        statement = f"INSERT INTO {TABLES} (catalog_key, database_name, table_name) VALUES (?, ?, ?)"
        try:
            self.database.change(statement, (self.key, database, table))
        except AlreadyExistsError:
            return False
        return True

    def remove_table(self, database: str, table: str) -> bool:
        """Delete one with its properties; False if it was not there."""
        where = "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        if not self.has_table(database, table):
            return False
        with self.database.transaction() as change:
            gone = change(f"DELETE FROM {TABLES} {where}", (self.key, database, table))
            change(f"DELETE FROM {PROPERTIES} {where}", (self.key, database, table))
        return gone > 0

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        """Give one another name; False if it was not there, AlreadyExistsError if the new one is taken."""
        where = "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        with self.database.transaction() as change:
            moved = change(f"UPDATE {TABLES} SET database_name = ?, table_name = ? {where}", (*new, self.key, *old))
            change(f"DELETE FROM {PROPERTIES} {where}", (self.key, *new))
            change(f"UPDATE {PROPERTIES} SET database_name = ?, table_name = ? {where}", (*new, self.key, *old))
        return moved > 0

    def set_properties(self, database: str, table: str, properties: Mapping[str, str]) -> None:
        """What others may read of a table without its files; values that are too long are left out."""
        where = "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        insert = (
            f"INSERT INTO {PROPERTIES} (catalog_key, database_name, table_name, property_key, property_value) "
            "VALUES (?, ?, ?, ?, ?)"
        )
        with suppress(AlreadyExistsError), self.database.transaction() as change:  # another has just done so
            change(f"DELETE FROM {PROPERTIES} {where}", (self.key, database, table))
            for key, value in properties.items():
                if len(key) <= 255 and len(value) <= LONGEST_VALUE:
                    change(insert, (self.key, database, table, key, value))

    def properties(self, database: str, table: str) -> dict[str, str]:
        """What `set_properties` stored."""
        statement = (
            f"SELECT table_name, property_key, property_value FROM {PROPERTIES} "
            "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        )
        rows = self.database.query(statement, (self.key, database, table))
        return {key: value or "" for own, key, value in rows if own == table}

    # ---- views

    def views(self, database: str) -> list[str]:
        """Names of a database's views, sorted."""
        return self._names(VIEWS, "view_name", database)

    def view(self, database: str, view: str) -> str | None:
        """The text of a view, None where there is none."""
        statement = (
            f"SELECT view_name, view_schema FROM {VIEWS} WHERE catalog_key = ? AND database_name = ? AND view_name = ?"
        )
        rows = self.database.query(statement, (self.key, database, view))
        return next((str(text) for name, text in rows if name == view), None)

    def set_view(self, database: str, view: str, text: str, replace: bool) -> None:
        """Insert a view, or give it another text; AlreadyExistsError if it is there and `replace` is not set."""
        insert = f"INSERT INTO {VIEWS} (catalog_key, database_name, view_name, view_schema) VALUES (?, ?, ?, ?)"
        with self.database.transaction() as change:
            if replace:
                where = "WHERE catalog_key = ? AND database_name = ? AND view_name = ?"
                change(f"DELETE FROM {VIEWS} {where}", (self.key, database, view))
            change(insert, (self.key, database, view, text))

    def change_view(self, database: str, view: str, old: str, new: str) -> bool:
        """Give a view another text; False where it has not the old one any more."""
        where = "WHERE catalog_key = ? AND database_name = ? AND view_name = ? AND view_schema = ?"
        statement = f"UPDATE {VIEWS} SET view_schema = ? {where}"
        return old == new or self.database.change(statement, (new, self.key, database, view, old)) > 0

    def remove_view(self, database: str, view: str) -> bool:
        """Delete a view; False if it was not there."""
        where = "WHERE catalog_key = ? AND database_name = ? AND view_name = ?"
        if not self._has(VIEWS, "view_name", database, view):
            return False
        return self.database.change(f"DELETE FROM {VIEWS} {where}", (self.key, database, view)) > 0

    # ---- parts

    def _names(self, table: str, column: str, database: str) -> list[str]:
        statement = f"SELECT database_name, {column} FROM {table} WHERE catalog_key = ? AND database_name = ?"
        return sorted(name for own, name in self.database.query(statement, (self.key, database)) if own == database)

    def _has(self, table: str, column: str, database: str, name: str) -> bool:
        statement = (
            f"SELECT database_name, {column} FROM {table} WHERE catalog_key = ? AND database_name = ? AND {column} = ?"
        )
        return (database, name) in self.database.query(statement, (self.key, database, name))


def _check_values(properties: Mapping[str, str | None]) -> None:
    for key, value in properties.items():
        if key == EXISTS:
            raise InvalidError("this property is the catalog's own", property=key)
        if len(key) > 255 or len(value or "") > LONGEST_VALUE:
            raise InvalidError("too long for the catalog's database", property=key[:100], most=LONGEST_VALUE)
