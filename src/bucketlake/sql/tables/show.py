"""SHOW for databases and tables of the lake, with Spark's columns. DESCRIBE stands in `describe`."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from bucketlake.catalog import SYSTEM_DATABASE
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.schema.default import default_shown
from bucketlake.spark import actions
from bucketlake.spark.instants import shown_schema, shows_instants
from bucketlake.spark.types import quoted, spark_type
from bucketlake.sql.query import max_pt
from bucketlake.sql.query.sys_functions import NAMES, is_sys
from bucketlake.sql.tables import catalog_views
from bucketlake.sql.tables.ddl import accept_database, partition_spec
from bucketlake.sql.tables.partitions import Spec, listed, not_found, require_full
from bucketlake.sql.tables.rows import frame
from bucketlake.sql.tables.tags import show_tags
from bucketlake.sql.tables.views import show_views
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.printed import quoted_if_needed
from bucketlake.types.instants import LEGACY_TIMESTAMPS, as_instants
from bucketlake.types.model import LISTS, MAX_LENGTH, DataField, DataType, Root, quote_text, type_text
from bucketlake.types.parse import parse_type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable
    from bucketlake.table import Table

PROVIDER = "paimon"


def show(cursor: Cursor) -> Statement | None:
    """SHOW CATALOGS | DATABASES | TABLES | TABLE EXTENDED | VIEWS | COLUMNS | PARTITIONS | TBLPROPERTIES | CREATE TABLE
    | CURRENT {NAMESPACE | SCHEMA | DATABASE}; other SHOWs go to Spark."""
    cursor.expect("SHOW")
    for words, parse in _SHOWN:
        if cursor.accept(*words):
            return parse(cursor)
    return None


def _databases(cursor: Cursor) -> Statement:
    return _ShowDatabases(cursor.name() if _accept_in(cursor) else (), _pattern(cursor))


def _catalogs(cursor: Cursor) -> Statement:
    return _ShowCatalogs(cursor.text, _pattern(cursor))


def _tables(cursor: Cursor) -> Statement:
    return _ShowTables(cursor.name() if _accept_in(cursor) else None, _pattern(cursor))


def _extended(cursor: Cursor) -> Statement:
    database = cursor.name() if _accept_in(cursor) else None
    cursor.expect("LIKE")
    pattern = cursor.string()
    return _ShowExtended(database, pattern, partition_spec(cursor) if cursor.accept("PARTITION") else None)


def _created(cursor: Cursor) -> Statement | None:
    cursor.table()
    return None if cursor.accept("AS", "SERDE") else _OfTable(_create_table)


def _columns_shown(cursor: Cursor) -> Statement:
    if not _accept_in(cursor):
        cursor.fail("expected IN or FROM")
    return _columns_of(cursor)


def _partitions_shown(cursor: Cursor) -> Statement:
    cursor.table()
    spec = partition_spec(cursor) if cursor.accept("PARTITION") else {}
    return _OfTable(lambda lake, name: _partitions(lake, lake.table(name.full), spec))


def _properties_shown(cursor: Cursor) -> Statement:
    cursor.table()
    keys = cursor.bracketed(cursor.key) if cursor.sees("(") else []
    if len(keys) > 1:
        cursor.fail("SHOW TBLPROPERTIES takes one key")
    return _OfTable(lambda lake, name: _properties(lake, lake.table(name.full), keys))


@dataclass(frozen=True, slots=True)
class _CurrentNamespace:
    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return frame(lake, "catalog string, namespace string", [(names.own_catalog(lake), lake.current_database)])


@dataclass(frozen=True, slots=True)
class _ShowCatalogs:
    text: str
    pattern: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        own = _matching([names.own_catalog(lake)], self.pattern)
        found = {row[0] for row in actions.rows(lake.spark.sql(self.text))}
        return frame(lake, "catalog string", [(catalog,) for catalog in sorted({*own, *found})])


_SHOWN: list[tuple[tuple[str, ...], Callable[[Cursor], Statement | None]]] = [
    (("CATALOGS",), _catalogs),
    (("DATABASES",), _databases),
    (("SCHEMAS",), _databases),
    (("NAMESPACES",), _databases),
    (("TABLES",), _tables),
    (("TABLE", "EXTENDED"), _extended),
    (("VIEWS",), show_views),
    (("TAGS",), show_tags),
    (("CREATE", "TABLE"), _created),
    (("COLUMNS",), _columns_shown),
    (("PARTITIONS",), _partitions_shown),
    (("TBLPROPERTIES",), _properties_shown),
    (("CURRENT",), lambda cursor: _CurrentNamespace() if accept_database(cursor) else None),
    (("FUNCTIONS",), lambda cursor: _functions(cursor)),
    (("USER", "FUNCTIONS"), lambda cursor: _functions(cursor)),
    (("ALL", "FUNCTIONS"), lambda cursor: _functions(cursor)),
]


def _functions(cursor: Cursor) -> Statement | None:
    """Those of `sys`; all others are Spark's."""
    if not _accept_in(cursor):
        return None
    database = tuple(part.lower() for part in cursor.name())
    if database[-1] != "sys" or len(database) > 2:
        return None
    return _ShowFunctions(cursor.text, database, _pattern(cursor))


@dataclass(frozen=True, slots=True)
class _ShowFunctions:
    text: str
    database: tuple[str, ...]
    pattern: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        if not is_sys(lake, self.database):
            return lake.spark.sql(self.text)
        found = _matching((*NAMES, max_pt.NAME), self.pattern)
        return frame(lake, "function string", [(f"{names.CATALOG}.sys.{function}",) for function in found])


@dataclass(frozen=True, slots=True)
class _ShowDatabases:
    place: tuple[str, ...]  # the catalog that is named, or the database
    pattern: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        is_catalog = len(self.place) == 1 and self.place[0].lower() in lake.catalog_names
        found = [] if self.place and not is_catalog else _matching(lake.catalog.list_databases(), self.pattern)
        if self.place and not is_catalog:  # databases have none in them
            database = names.database(lake, self.place)
            if database != SYSTEM_DATABASE and not lake.catalog.database_exists(database):
                remedy = f"name the catalog, {lake.catalog_names[0]}, or none"
                raise NotFoundError("no such database", database=database, remedy=remedy)
        return frame(lake, "namespace string", [(database,) for database in found])


@dataclass(frozen=True, slots=True)
class _ShowTables:
    database: tuple[str, ...] | None
    pattern: str

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.database)

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        database = lake.current_database if self.database is None else names.database(lake, self.database)
        rows = [(database, table, False) for table in _matching(lake.catalog.list_tables(database), self.pattern)]
        return frame(lake, "namespace string, tableName string, isTemporary boolean", rows)


@dataclass(frozen=True, slots=True)
class _ShowExtended:
    """A row a table with all that is known of it, or the row of one table's partition."""

    database: tuple[str, ...] | None
    pattern: str
    partition: Spec | None

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.database)

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        database = lake.current_database if self.database is None else names.database(lake, self.database)
        schema = "namespace string, tableName string, isTemporary boolean, information string"
        if self.partition is not None:
            table = lake.table(names.LakeName(database, self.pattern).full).table
            text = _partition_information(lake, table, self.partition)
            return frame(lake, schema, [(database, self.pattern, False, text)])
        found = _matching(lake.catalog.list_tables(database), self.pattern)
        rows = [(database, one, False, _information(lake, names.LakeName(database, one))) for one in found]
        return frame(lake, schema, rows)


def _information(lake: Lake, name: names.LakeName) -> str:
    table = lake.table(name.full)
    shown = {"Catalog": names.CATALOG, "Namespace": name.database, "Table": name.table, "Type": "MANAGED"}
    if table.schema.comment is not None:
        shown["Comment"] = table.schema.comment
    shown |= {"Location": table.path, "Provider": PROVIDER}
    shown["Table Properties"] = properties_text(table)
    if table.schema.partition_keys:
        shown["Partition Provider"] = "Catalog"
        shown["Partition Columns"] = "[" + ", ".join(quoted(key) for key in table.schema.partition_keys) + "]"
    shown["Schema"] = _tree(table)
    return "\n".join(f"{key}: {value}" if value else key for key, value in shown.items()) + "\n"


def _tree(table: LakeTable) -> str:
    """The columns as Spark draws a schema."""
    fields = table.schema.fields
    kinds = shown_schema(fields, table.options).fields
    own = [StructField(f.name, kind.dataType, f.type.nullable) for f, kind in zip(fields, kinds, strict=True)]
    return str(StructType(own).treeString())


def _partition_information(lake: Lake, table: Table, spec: Spec) -> str:
    full = require_full(table, spec)
    found = listed(lake, table, full)
    if not found:
        raise not_found(table, [full])
    parameters = ", ".join(f"{key}={value}" for key, value in found[0].parameters.items())
    values = ", ".join(found[0].shown(table.schema.partition_keys))
    return (
        f"Partition Values: [{values}]\nPartition Parameters: {{{parameters}}}\n"
        f"Partition Statistics: {found[0].rows} rows, {found[0].size} bytes\n"
    )


@dataclass(frozen=True, slots=True)
class _OfTable:
    """What is shown of one table."""

    rows: Callable[[Lake, names.LakeName], DataFrame]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return self.rows(lake, name)


def _accept_in(cursor: Cursor) -> bool:
    return cursor.accept("IN") or cursor.accept("FROM")


def _columns_of(cursor: Cursor) -> Statement:
    """`t [{IN | FROM} db]`."""
    parts = cursor.table()
    if _accept_in(cursor):
        database = cursor.name()
        if len(parts) > 1 and parts[:-1] != database:
            cursor.fail("two databases are named")
        cursor.subject = (*database, parts[-1])
    return _OfTable(_columns)


def _pattern(cursor: Cursor) -> str:
    """[LIKE] 'a*|b*', Spark's pattern; `*` where none is given."""
    given = cursor.accept("LIKE")
    return "*" if cursor.done and not given else cursor.string()


def _matching(found: Iterable[str], pattern: str) -> list[str]:
    wanted = [part.strip().lower().replace("%", "*") for part in pattern.split("|")]
    return sorted(name for name in found if any(fnmatch.fnmatchcase(name.lower(), part) for part in wanted))


def _columns(lake: Lake, name: names.LakeName) -> DataFrame:
    view = catalog_views.find(lake, name)
    fields = lake.table(name.full).schema.fields if view is None else view.fields
    return frame(lake, "col_name string", [(f.name,) for f in fields])


def _properties(lake: Lake, table: LakeTable, keys: list[str]) -> DataFrame:
    known = properties(table)
    rows = sorted(known.items())
    for wanted in keys:
        rows = [(wanted, known.get(wanted, f"Table {table.name} does not have property: {wanted}"))]
    return frame(lake, "key string, value string", rows)


def properties(table: LakeTable) -> dict[str, str]:
    """The table's options as SHOW and DESCRIBE list them, with its path and primary key."""
    found = {**table.schema.options, "path": table.path}
    found.pop(LEGACY_TIMESTAMPS, None)  # it is the session's
    if table.schema.primary_keys:
        found["primary-key"] = ",".join(table.schema.primary_keys)
    return found


def properties_text(table: LakeTable) -> str:
    """`[k=v,…]`, sorted."""
    return "[" + ",".join(f"{key}={value}" for key, value in sorted(properties(table).items())) + "]"


def _partitions(lake: Lake, table: LakeTable, spec: Spec) -> DataFrame:
    found = listed(lake, table.table, spec)
    rows = [("/".join(one.shown(table.schema.partition_keys)),) for one in found]
    return frame(lake, "partition string", rows)


def _create_table(lake: Lake, name: names.LakeName) -> DataFrame:
    """The statement that makes this table's schema, or this view, anew, in Spark's spelling."""
    view = catalog_views.find(lake, name)
    if view is not None:
        return frame(lake, "createtab_stmt string", [(catalog_views.statement(view, name),)])
    table = lake.table(name.full)
    schema = table.schema
    columns = ",\n  ".join(_column_clause(f, shows_instants(table.options)) for f in schema.fields)
    place = ".".join(quoted_if_needed(part) for part in (names.CATALOG, name.database, name.table))
    text = f"CREATE TABLE {place} (\n  {columns})\nUSING {PROVIDER}\n"
    if schema.partition_keys:
        text += f"PARTITIONED BY ({', '.join(quoted_if_needed(key) for key in schema.partition_keys)})\n"
    if schema.comment is not None:
        text += f"COMMENT {quote_text(schema.comment)}\n"
    text += f"LOCATION {quote_text(table.path)}\n"
    listed = ",\n  ".join(
        f"{quote_text(key)} = {quote_text(value)}" for key, value in sorted(properties(table).items())
    )
    text += f"TBLPROPERTIES (\n  {listed})\n"
    return frame(lake, "createtab_stmt string", [(text,)])


def _column_clause(field: DataField, legacy: bool) -> str:
    text = f"{quoted_if_needed(field.name)} {_declared(field.type, legacy)}"
    if not field.type.nullable:
        text += " NOT NULL"
    if field.default is not None:
        text += f" DEFAULT {default_text(field, field.default)}"
    if field.description:
        text += f" COMMENT {quote_text(field.description)}"
    return text


def default_text(field: DataField, text: str) -> str:
    """The default as SQL; text that is no value of the column, of a schema that others wrote, as a text."""
    try:
        return default_shown(field)
    except (InvalidError, UnsupportedError):
        return quote_text(text)


def _declared(t: DataType, legacy: bool) -> str:
    """The type as CREATE TABLE takes it: in Spark's words, or Paimon's where that says more: TIMESTAMP(3), TIME(3).
    `legacy`: in a session where TIMESTAMP is Spark's own."""
    plain = t.with_nullable(True)
    spark = _spark_words(as_instants(plain) if legacy else plain)
    same = type_text(parse_type_text(spark, "spark legacy" if legacy else "spark")) == type_text(plain)
    return spark if same else type_text(plain)


def _spark_words(t: DataType) -> str:
    """The type as Spark prints it."""
    if t.root in LISTS and t.element:
        return f"ARRAY<{_spark_words(t.element)}>"
    if t.root is Root.MAP and t.key and t.element:
        return f"MAP<{_spark_words(t.key)}, {_spark_words(t.element)}>"
    if t.root is Root.ROW:
        return f"STRUCT<{', '.join(_member(item) for item in t.fields)}>"
    return shown_type(t).upper() if t.root in (Root.CHAR, Root.VARCHAR) else spark_type(t).simpleString().upper()


def _member(item: DataField) -> str:
    text = f"{quoted_if_needed(item.name)}: {_spark_words(item.type)}"
    if not item.type.nullable:
        text += " NOT NULL"
    return text + (f" COMMENT {quote_text(item.description)}" if item.description else "")


def shown_type(t: DataType) -> str:
    """The type as DESCRIBE shows it."""
    if t.root in (Root.CHAR, Root.VARCHAR) and t.length != MAX_LENGTH:
        return f"{t.root.value.lower()}({t.length})"
    return str(spark_type(t).simpleString())
