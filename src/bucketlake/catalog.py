"""Databases and tables of one warehouse folder, laid out as Paimon's filesystem catalog does, without Spark.

    <warehouse>/<database>.db/<table>/schema/schema-0

Spec: docs/spec/catalog.md
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bucketlake.env.env import Env
from bucketlake.env.object_store import STORAGE_PREFIXES, open_env, storage_for
from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, StorageError, UnsupportedError
from bucketlake.file_names import fault_of
from bucketlake.lazy import lazy
from bucketlake.ops.scan.fallback import check_branches
from bucketlake.options.catalog import catalog_options, table_defaults
from bucketlake.options.options import option_keys
from bucketlake.paths import TablePaths
from bucketlake.schema.change import SchemaChange
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.shown import listing_html, listing_text
from bucketlake.types.model import DataField, from_arrow_type
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake import catalog_tables
    from bucketlake import table as tables
    from bucketlake.ops.clone import table as clones
    from bucketlake.ops.clone.clone import Cloned
    from bucketlake.ops.clone.table import Cloning
    from bucketlake.ops.migrate import folder as folders
    from bucketlake.ops.migrate.folder import Draft
    from bucketlake.ops.migrate.migrate import Migrated
    from bucketlake.ops.scan import system_tables
    from bucketlake.ops.system import registry
    from bucketlake.ops.system.model import SystemTable
    from bucketlake.table import Table
else:  # a warehouse is often opened for its names, schemas or files alone
    tables = lazy("bucketlake.table")
    catalog_tables = lazy("bucketlake.catalog_tables")
    system_tables = lazy("bucketlake.ops.scan.system_tables")
    registry = lazy("bucketlake.ops.system.registry")
    folders = lazy("bucketlake.ops.migrate.folder")
    clones = lazy("bucketlake.ops.clone.table")

DEFAULT_DATABASE = "default"
SYSTEM_DATABASE = "sys"
DATABASE_SUFFIX = ".db"
_PART = r"(?:`[^`]+`|[^.`]+)+"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's name: database, table, and what stands behind `$`: a system table, `branch_<name>`, or both
    (`branch_<name>$<system table>`)."""

    database: str
    table: str
    system: str | None = None

    @property
    def branch(self) -> str | None:
        """The branch that `$branch_<name>` names."""
        found = (self.system or "").partition("$")[0]
        return found.removeprefix("branch_") if found.startswith("branch_") else None

    @property
    def system_table(self) -> str | None:
        """The system table that the name means, None for a table or a branch of it."""
        return self.system if self.branch is None else (self.system or "").partition("$")[2] or None

    @property
    def text(self) -> str:
        """As users write it."""
        return f"{self.database}.{self.table}" + (f"${self.system}" if self.system else "")


def parse_name(text: str, database: str = DEFAULT_DATABASE) -> Identifier:
    """`table`, `database.table`, either with `$system`, parts optionally in backticks; InvalidError otherwise."""
    parts = _split(text)
    if len(parts) not in (1, 2):
        raise InvalidError("not a table name", name=text, remedy="write `database.table`")
    table, _, system = parts[-1].partition("$")
    check_name(table, "table")
    if len(parts) == 2:
        check_name(parts[0], "database")
    found = Identifier(parts[0] if len(parts) == 2 else database, table, system or None)
    if found.branch is not None:
        check_name(found.branch, "branch")
    return found


def check_name(name: str, what: str) -> None:
    """InvalidError for a database or table name that cannot be a folder."""
    fault = fault_of(name) or fault_of(f"{name}{DATABASE_SUFFIX}" if what == "database" else name)
    if not name.strip() or fault is not None:
        raise InvalidError(
            f"not a {what} name", name=repr(name)[:100], reason=fault, remedy="use letters, digits, '_' and '-'"
        )


@dataclass(frozen=True, slots=True)
class Catalog:
    """One warehouse. Every call looks at the storage: nothing is remembered but the connection."""

    env: Env
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets

    # ---- databases

    def list_databases(self) -> list[str]:
        """Names of all databases, sorted; `default` is always there."""
        found = {
            info.name.removesuffix(DATABASE_SUFFIX)
            for info in self.env.storage.list(self.warehouse)
            if info.is_dir and info.name.endswith(DATABASE_SUFFIX)
        }
        return sorted(found | {DEFAULT_DATABASE})

    def database_exists(self, name: str) -> bool:
        """Whether the database is there."""
        return name == DEFAULT_DATABASE or name in self.list_databases()

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make an empty database; AlreadyExistsError if the name is taken.

        A filesystem catalog has no place for `properties`: they are dropped with a warning, a `location` is refused.
        """
        check_name(name, "database")
        _refuse_system_database(name)
        if self.database_exists(name):
            if ignore_if_exists:
                return
            raise AlreadyExistsError("database exists", database=name)
        if "location" in (properties or {}):
            raise UnsupportedError(
                "Cannot specify location for a database when using fileSystem catalog.", database=name
            )
        if properties:
            warnings.warn(
                f"database {name}: a filesystem catalog stores no properties: {sorted(properties)}", stacklevel=2
            )
        self.env.storage.make_dir(self.database_path(name))

    def database_properties(self, name: str) -> dict[str, str]:
        """Properties of a database: none are stored. NotFoundError without the database."""
        if not self.database_exists(name):
            raise self._no_database(name)
        return {}

    def alter_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Refused: a filesystem catalog stores no properties."""
        raise UnsupportedError("Alter database is not supported.", database=name, properties=sorted(properties))

    def drop_database(self, name: str, cascade: bool = False, ignore_if_missing: bool = False) -> None:
        """Remove a database, with its tables if `cascade`; InvalidError if it has some and not."""
        _refuse_system_database(name)
        if not self.database_exists(name):
            if ignore_if_missing:
                return
            raise self._no_database(name)
        tables = self.list_tables(name)
        if tables and not cascade:
            raise InvalidError(
                "database is not empty", database=name, tables=len(tables), remedy="drop its tables, or use CASCADE"
            )
        path = self.database_path(name)
        self.env.storage.delete_tree(path)
        if self.env.storage.info(path) is not None:
            raise StorageError(
                "the database is empty, but an object that stands for its folder remains",
                path=f"{path}/",
                remedy="remove it with the store's own tools: obstore cannot",
            )

    def database_path(self, name: str) -> str:
        """The folder of a database."""
        check_name(name, "database")
        return f"{self.warehouse}/{name}{DATABASE_SUFFIX}"

    # ---- tables

    def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """Names of the database's tables, sorted; folders that hold no schema are none. Those of `sys` are built in."""
        if database == SYSTEM_DATABASE:
            return sorted(catalog_tables.CATALOG_TABLES)
        if not self.database_exists(database):
            raise self._no_database(database)
        folders = [info for info in self.env.storage.list(self.database_path(database)) if info.is_dir]
        return sorted(info.name for info in folders if self._has_schema(f"{self.database_path(database)}/{info.name}"))

    def all_tables(self, database: str | None = None) -> list[str]:
        """`db.t` of every table of every database, or of one, sorted, as `table` takes them."""
        databases = self.list_databases() if database is None else [database]
        named = ((one, table) for one in databases for table in self.list_tables(one))
        return [".".join(f"`{part}`" if "." in part else part for part in parts) for parts in named]

    def table_exists(self, name: str) -> bool:
        """Whether the table is there."""
        return self._has_schema(self.table_path(name))

    def table_path(self, name: str) -> str:
        """The folder of a table, existing or not."""
        found = parse_name(name)
        return f"{self.database_path(found.database)}/{found.table}"

    def table(self, name: str, options: Mapping[str, Any] | None = None) -> Table:
        """A table to read and write, or a system table over it (`t$ro`, `t$files`, …) or of the catalog (`sys.tables`,
        …) to read. `options`: dynamic options for this handle only."""
        found = parse_name(name)
        if found.database == SYSTEM_DATABASE:
            return catalog_tables.catalog_table(self, self.env, found.table, found.text)
        branch = {"branch": found.branch} if found.branch else {}
        rows = system_tables.view_of((found.system_table or "").lower())
        if rows is not None:
            rows.check_options(option_keys(options or {}))
        elif found.system_table is not None:
            registry.system_table(found.system_table, found.text)  # refuses unknown names before it looks for the table
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        path = self.table_path(name)
        if not self._has_schema(path):
            raise NotFoundError("no such table", table=found.text, remedy=self._near(found))
        table = tables.open_table(path, self.env, name=found.text, options={**(options or {}), **branch})
        return replace(table, view=_view(table, found.system_table, found.text))

    def create_table(
        self,
        name: str,
        schema: TableSchema | pa.Schema | Sequence[DataField],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make a table and return it; AlreadyExistsError if the name is taken, NotFoundError without its database.

        `schema`: Arrow schema, fields, or a whole table schema (then keys, options and comment come from there).
        """
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        if ignore_if_exists and self._has_schema(self.table_path(name)):
            return self.table(name)
        draft = self.draft_table(name, schema, partition_keys, primary_keys, options, comment)
        if not self.publish_table(draft) and not ignore_if_exists:
            raise AlreadyExistsError("table exists", table=found.text, remedy="another process has just created it")
        return tables.open_table(draft.path, self.env, name=found.text)

    def draft_table(
        self,
        name: str,
        schema: TableSchema | pa.Schema | Sequence[DataField],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
    ) -> Table:
        """The table that `create_table` would make, checked but not there yet: files can be written for it, and nobody
        sees it before `publish_table`. Errors as `create_table`."""
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        path = self.table_path(name)
        if self._has_schema(path):
            raise AlreadyExistsError("table exists", table=found.text)
        made = new_schema(
            schema, partition_keys, primary_keys, {**table_defaults(self.options), **(options or {})}, comment
        )
        refuse_undelivered(made)
        made = replace(made, time_millis=self.env.clock.now_millis())
        draft = tables.new_table(self.env, path, made, found.text)
        check_branches(draft.store, {}, made.options)
        return draft

    def publish_table(self, draft: Table) -> bool:
        """Make a drafted table be there; False if its name was taken meanwhile: one of several callers gets True."""
        path = draft.store.paths.schema(draft.schema.id)
        return self.env.storage.put_if_absent(path, draft.schema.encode())

    def withdraw_table(self, published: Table) -> bool:
        """Take back a table that `publish_table` has just made, unless it is used: False, and it stays, once there is
        another schema or a snapshot. Nothing but its schema file is removed: data files are their writers' affair."""
        store = published.store
        folder, name = store.paths.schema(published.schema.id).rsplit("/", 1)
        others = [info.name for info in self.env.storage.list(folder) if info.name.startswith("schema-")]
        if others != [name] or store.latest_snapshot() is not None:
            return False
        self.env.storage.delete(f"{folder}/{name}")
        if store.latest_snapshot() is None:
            return True
        self.env.storage.put_if_absent(f"{folder}/{name}", published.schema.encode())  # a commit came between
        return False

    def drop_table(self, name: str, ignore_if_missing: bool = False) -> None:
        """Remove a table with all that lies in its folder (files on external paths stay)."""
        found = parse_name(name)
        self._require_data_table(found, "drop")
        path = self.table_path(name)
        if self._has_schema(path):
            self._keep_database(found.database)
            self.env.storage.delete_tree(path)
        elif not ignore_if_missing:
            raise NotFoundError("no such table", table=found.text, remedy=self._near(found))

    def rename_table(self, source: str, target: str, ignore_if_missing: bool = False) -> None:
        """Move a table to a free name, perhaps in another database. Not atomic on object stores."""
        old, new = parse_name(source), parse_name(target)
        self._require_data_table(old, "rename")
        self._require_data_table(new, "rename")
        if not self._has_schema(self.table_path(source)):
            if ignore_if_missing:
                return
            raise NotFoundError("no such table", table=old.text, remedy=self._near(old))
        if not self.database_exists(new.database):
            raise self._no_database(new.database)
        if self._has_schema(self.table_path(target)):
            raise AlreadyExistsError("table exists", table=new.text)
        self._keep_database(old.database)
        self.env.storage.rename(self.table_path(source), self.table_path(target))

    def migrate_folder(
        self, folder: str, name: str, file_format: str = "parquet", draft: Draft | None = None
    ) -> Migrated:
        """Make the parquet or ORC files of a folder, partitioned as Hive does it, those of a table, in place: of `name`
        where it is there, else of a new one of `draft`; without it of what the first file's footer says, partition
        columns as texts. Call again where it failed. Errors as `ops.migrate.migrate.migrate`.
        Spec: docs/spec/migration.md
        """
        return folders.migrate_folder(self, folder, name, file_format, draft)

    def clone_table(self, source: Table, name: str, how: Cloning | None = None) -> Cloned | None:
        """Copy the files of a table's snapshot as a table of this catalog: a new one, or over the partitions of one
        that is there. Call again where it failed: what was copied is not copied again. None where `how` leaves a table
        that is there alone.
        Spec: docs/spec/clone.md
        """
        return clones.clone_table(source, self, name, how)

    def require_database(self, name: str) -> None:
        """NotFoundError where the database of a table's name is not there."""
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)

    def alter_table(self, name: str, *changes: SchemaChange, ignore_if_missing: bool = False) -> Table | None:
        """Publish the next schema and return the table as it is now; None if it is missing and that is ignored."""
        if ignore_if_missing and not self.table_exists(name):
            return None
        return self.table(name).alter(*changes)

    # ---- shown

    def __repr__(self) -> str:
        return listing_text("Catalog", self.warehouse)

    def _repr_html_(self) -> str:
        return listing_html(self.warehouse, (), self.all_tables)

    # ---- parts

    def _keep_database(self, name: str) -> None:
        """Where folders exist by what lies in them alone, let a database outlive its last table."""
        if name != DEFAULT_DATABASE:
            self.env.storage.make_dir(self.database_path(name))

    def _has_schema(self, path: str) -> bool:
        paths = TablePaths(path)
        first = paths.schema(0)
        if self.env.storage.info(first) is not None:
            return True
        return any(info.name.startswith("schema-") for info in self.env.storage.list(first.rsplit("/", 1)[0]))

    def _require_data_table(self, found: Identifier, action: str) -> None:
        if found.system is None and found.database != SYSTEM_DATABASE:
            return
        raise InvalidError(
            f"Cannot '{action}' for system table '{found.text}', please use data table.", table=found.text
        )

    def _no_database(self, name: str) -> NotFoundError:
        known = self.list_databases()
        near = get_close_matches(name, known, 1)
        remedy = f"did you mean '{near[0]}'?" if near else "create it first"
        return NotFoundError("no such database", database=name, warehouse=self.warehouse, remedy=remedy)

    def _near(self, found: Identifier) -> str:
        if not self.database_exists(found.database):
            return f"there is no database '{found.database}'"
        near = get_close_matches(found.table, self.list_tables(found.database), 1)
        return f"did you mean '{near[0]}'?" if near else "create it first, or look with list_tables()"


def open_catalog(warehouse: str | PathLike[str], options: Mapping[str, Any] | None = None, **more: Any) -> Catalog:
    """The catalog of a warehouse folder: a local path or a URI (`s3://bucket/wh`).

    `options`: storage options (`s3.endpoint`, …), `table-default.<option>` for new tables. Nothing is made yet: the
    warehouse appears with its first database or table.
    Raises: UnsupportedError naming an option of Paimon's that would change where tables lie, how they are named or who
    locks them; InvalidError for another warehouse among the options.
    Spec: docs/spec/catalog.md#options
    """
    given = catalog_options({**(options or {}), **more}, STORAGE_PREFIXES)
    env, root = open_env(fspath(warehouse), given)
    other = given.get("warehouse")
    if other is not None and storage_for(other, given)[1].rstrip("/") != root.rstrip("/"):
        raise InvalidError("two warehouses", warehouse=root, remedy="leave the option 'warehouse' out")
    found = env.storage.info(root)
    if found is not None and not found.is_dir:
        raise InvalidError("warehouse is a file", warehouse=root, remedy="name a folder")
    return Catalog(env, root.rstrip("/") or "/", given)


def open_named(path: str, env: Env, options: Mapping[str, Any] | None = None) -> Table:
    """The table in a folder; behind the folder's name may stand `$branch_<name>`, a system table's name, or both."""
    folder, _, last = path.rstrip("/").rpartition("/")
    name, sign, system = last.partition("$")
    if not sign:
        return tables.open_table(path, env, options=options)
    found = Identifier("", name, system)
    branch = {"branch": found.branch} if found.branch else {}
    table = tables.open_table(f"{folder}/{name}", env, options={**(options or {}), **branch})
    return replace(table, name=last, view=_view(table, found.system_table, last))


def _view(table: Table, system: str | None, name: str) -> system_tables.RowView | SystemTable | None:
    """The system table of this name over a table. `name`: of both, for errors."""
    if system is None:
        return None
    found = system_tables.view_of(system.lower()) or registry.system_table(system, name)
    if found is None:
        registry.refuse_row_tracking(table.store, name)
    return found


def new_schema(
    schema: TableSchema | pa.Schema | Sequence[DataField],
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    options: Mapping[str, Any],
    comment: str | None,
) -> TableSchema:
    """The validated schema 0 of a new table."""
    fields: Sequence[DataField]
    if isinstance(schema, TableSchema):
        fields, partition_keys, primary_keys = schema.fields, schema.partition_keys, schema.primary_keys
        options, comment = {**options, **schema.options}, schema.comment or comment
    elif isinstance(schema, pa.Schema):
        fields = [DataField(i, f.name, from_arrow_type(f.type, f.nullable)) for i, f in enumerate(schema)]
    else:
        fields = schema
    return TableSchema.create(fields, partition_keys, primary_keys, options, comment or None)


def _split(text: str) -> list[str]:
    """Parts between dots, backticks removed; empty if the text has another shape."""
    if not re.fullmatch(rf"{_PART}(?:\.{_PART})*", text):
        return []
    return [part.replace("`", "") for part in re.findall(_PART, text)]


def _refuse_system_database(name: str) -> None:
    if name == SYSTEM_DATABASE:
        raise InvalidError("the system database cannot be changed", database=name)
