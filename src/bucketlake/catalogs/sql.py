"""The SQL catalog: names in tables of a database, as Apache Paimon's JDBC catalog has them; files as everywhere.

    <warehouse>/<database>.db/<table>/schema/schema-0     the table itself, schemas and snapshots included
    paimon_tables and others                              which names there are

A table is there once its row is. Its schema is published first, its row last; where it is removed the row goes first.
What dies on the way leaves a folder that no row names: `Catalog.adopt_table` (CALL sys.repair) takes it up.

Spec: docs/catalogs.md#sql
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from bucketlake.catalogs.files import FileSystem, has_schema, move_table, remove_table
from bucketlake.catalogs.model import DialectChange, Found, View, not_empty
from bucketlake.catalogs.names import Identifier
from bucketlake.catalogs.sql_lock import Locks, SqlKeeper, told
from bucketlake.catalogs.sql_rows import Rows
from bucketlake.catalogs.sql_settings import settings_of
from bucketlake.catalogs.view_schema import ANEW, view_from_json, view_to_json
from bucketlake.env.database import Database
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.guard import decoding
from bucketlake.ops.table.newest import newest_schema
from bucketlake.options.options import parse_duration
from bucketlake.paths import TablePaths

if TYPE_CHECKING:
    from bucketlake.table import Table

LOCATION = "location"
TRIES = 8  # of a change that others overtake


class SqlMetastore:
    """The names of one catalog key in a database. Every call asks the database: nothing is remembered."""

    kind = "jdbc"
    title = "JdbcCatalog"
    has_folder = True
    is_folders = False

    def __init__(self, env: Env, warehouse: str, rows: Rows, locks: Locks, sync: bool = True) -> None:
        self.rows, self.locks = rows, locks
        self._env, self._warehouse, self._sync = env, warehouse, sync
        self._files = FileSystem(env, warehouse)

    # ---- databases

    def databases(self) -> set[str]:
        """See Metastore."""
        return self.rows.databases()

    def has_database(self, name: str) -> bool:
        """See Metastore."""
        return self.rows.has_database(name)

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """See Metastore. `location` may be said, but be no other than where the warehouse has it."""
        own = self.database_path(name)
        given = properties.get(LOCATION, own).removeprefix("file:").rstrip("/")
        if given != own:
            raise UnsupportedError(
                "a SQL catalog's databases lie in its warehouse", database=name, location=given, remedy="leave it out"
            )
        self.rows.add_database(name, {**properties, LOCATION: own})

    def properties_of(self, name: str) -> dict[str, str]:
        """See Metastore."""
        return {LOCATION: self.database_path(name), **self.rows.database_properties(name)}

    def alter_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """See Metastore."""
        if LOCATION in changes:
            raise UnsupportedError("a SQL catalog does not support altering database location", database=name)
        self.rows.change_database(name, changes)

    def drop_database(self, name: str, cascade: bool) -> None:
        """See Metastore: tables one after the other, then the rest of its rows, then its folder."""
        tables = self.rows.tables(name)
        if tables and not cascade:
            raise not_empty(name, tables=len(tables))
        for table in tables:
            self.drop_table(Identifier(name, table))
        self.rows.remove_database(name)
        left = [info.name for info in self._env.storage.list(self.database_path(name))]
        if not left:
            with suppress(StorageError):
                self._env.storage.delete_tree(self.database_path(name))

    def database_path(self, name: str) -> str:
        """See Metastore."""
        return self._files.database_path(name)

    # ---- tables

    def tables(self, database: str) -> list[str]:
        """See Metastore."""
        return self.rows.tables(database)

    def find(self, name: Identifier) -> Found | None:
        """See Metastore."""
        return self.place(name) if self.rows.has_table(name.database, name.table) else None

    def place(self, name: Identifier) -> Found:
        """See Metastore."""
        path = self._files.place(name).path
        keeper = SqlKeeper(self.locks, Identifier(name.database, name.table), self._sync)
        return Found(path, Env(self._env.storage, self._env.clock, self._env.external, keeper))

    def publish(self, draft: Table, name: Identifier) -> bool:
        """See Metastore. InvalidError where a folder of this name holds a table that the database does not know."""
        with self.locks.held(name):
            if self.rows.has_table(name.database, name.table):
                return False
            if name.table in self.rows.views(name.database):
                raise AlreadyExistsError("a view has the table's name", table=name.text)
            if not self._files.publish(draft, name):
                if self.rows.has_table(name.database, name.table):
                    return False
                raise self._unknown(name)
            self._add(draft, name)
        self._tell(name, draft)
        return True

    def _add(self, draft: Table, name: Identifier) -> None:
        """Insert the row; where it is not there after that, the schema goes again."""
        try:
            self.rows.add_table(name.database, name.table)
        except StorageError:
            with suppress(StorageError):
                if self.rows.has_table(name.database, name.table):
                    return  # the answer alone was lost
                self._files.withdraw(draft, name)
            raise

    def _unknown(self, name: Identifier) -> InvalidError:
        return InvalidError(
            "the table's folder holds a table that the catalog's database does not know: one whose creation or removal "
            "was interrupted, or is under way",
            table=name.text,
            path=self._files.place(name).path,
            remedy=f"CALL sys.repair('{name.text}') takes it up; or remove the folder",
        )

    def _tell(self, name: Identifier, table: Table) -> None:
        if self._sync:
            with suppress(BucketlakeError):  # for others to look at: the schema file decides
                self.rows.set_properties(name.database, name.table, told(table.store.schema))

    def withdraw(self, published: Table, name: Identifier) -> bool:
        """See Metastore."""
        with self.locks.held(name):
            if not self._files.withdraw(published, name):
                return False
            self.rows.remove_table(name.database, name.table)
            return True

    def adopt(self, name: Identifier) -> None:
        """See Metastore."""
        place = self._files.place(name)
        with self.locks.held(name):
            if not has_schema(self._env, place.path):
                raise InvalidError("no table in this folder", table=name.text, path=place.path)
            self._take_up(name)

    def _take_up(self, name: Identifier) -> None:
        """Let the database know the table that lies in the folder of this name."""
        self.rows.add_table(name.database, name.table)
        if self._sync:
            path = self._files.place(name).path
            schema = newest_schema(self._env.of_table(path), TablePaths(path))
            self.rows.set_properties(name.database, name.table, told(schema))

    def drop_table(self, name: Identifier) -> bool:
        """See Metastore."""
        with self.locks.held(name):
            if not self.rows.remove_table(name.database, name.table):
                return False
            remove_table(self._env, self._files.place(name).path)
        return True

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """See Metastore: the row first, then the folder. Where the folder cannot be moved the row gets its name back,
        also while another rename is about to bring that folder; where somebody made a table of the new name meanwhile,
        who took the row for their own, both have one. A process that dies between both is told of by whoever opens the
        table."""
        source, target = self._files.place(old).path, self._files.place(new).path
        with self.locks.held(old, new):
            if self._env.storage.info(target) is not None and has_schema(self._env, target):
                raise self._unknown(new)
            if not self.rows.rename_table((old.database, old.table), (new.database, new.table)):
                raise NotFoundError("no such table", table=old.text)
            try:
                move_table(self._env, source, target)
            except BaseException as error:
                if isinstance(error, AlreadyExistsError) and has_schema(self._env, target):
                    self._take_up(new)
                    self._take_up(old)
                elif has_schema(self._env, source) or not has_schema(self._env, target):
                    self.rows.rename_table((new.database, new.table), (old.database, old.table))
                raise

    # ---- views

    def views(self, database: str) -> list[str]:
        """See Metastore."""
        return self.rows.views(database)

    def view(self, name: Identifier) -> View | None:
        """See Metastore."""
        text = self.rows.view(name.database, name.table)
        return None if text is None else self._view(text, name)

    def _view(self, text: str, name: Identifier) -> View:
        with decoding("not a view", name.text, ANEW):
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError("no object")
        return view_from_json(found, name.text)

    def create_view(self, name: Identifier, view: View, replace: bool) -> None:
        """See Metastore."""
        with self.locks.held(name):
            if self.rows.has_table(name.database, name.table):
                raise AlreadyExistsError("a table has the view's name", view=name.text)
            try:
                self.rows.set_view(name.database, name.table, json.dumps(view_to_json(view)), replace)
            except AlreadyExistsError as error:
                raise AlreadyExistsError("view exists", view=name.text) from error

    def change_view(self, name: Identifier, change: DialectChange) -> None:
        """See Metastore."""
        for _ in range(TRIES):
            text = self.rows.view(name.database, name.table)
            view = None if text is None else self._view(text, name)
            if text is None or view is None:
                raise NotFoundError("no such view", view=name.text)
            new = json.dumps(view_to_json(change.of(view, name)))
            if self.rows.change_view(name.database, name.table, text, new):
                return
        raise ConflictError("the view is changed by others all the time", view=name.text)

    def drop_view(self, name: Identifier) -> bool:
        """See Metastore."""
        with self.locks.held(name):
            return self.rows.remove_view(name.database, name.table)

    def __reduce__(self) -> tuple[object, ...]:
        return self.rows.database.__reduce__()

    def __repr__(self) -> str:
        return f"SqlMetastore({self.rows.database.settings.shown!r}, key={self.rows.key!r})"


def open_sql(env: Env, warehouse: str, options: Mapping[str, str]) -> SqlMetastore:
    """The SQL catalog that the options name. Its tables are made in the database where they are not there yet."""
    database = Database(settings_of(options))
    rows = Rows(database, options.get("catalog-key", "jdbc"))
    length = options.get("lock-key-max-length", "255")
    if not length.isascii() or not length.isdigit():
        raise InvalidError("not a number", option="lock-key-max-length", value=length)
    enabled = options.get("lock.enabled", "").strip().lower()
    locked = enabled == "true" if enabled else not isinstance(env.storage, LocalStorage)
    locks = Locks(
        rows,
        env.clock,
        locked,
        parse_duration(options.get("lock-acquire-timeout", "8 min")),
        parse_duration(options.get("lock-check-max-sleep", "8 s")),
    )
    rows.prepare(locked, int(length))
    sync = options.get("sync-all-properties", "true").strip().lower() != "false"
    return SqlMetastore(env, warehouse, rows, locks, sync)
