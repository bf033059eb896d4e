"""DESCRIBE for databases, tables and views of the lake, with the rows of Spark's and Paimon's."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.redaction import redact_options
from bucketlake.spark.assignment import Rules
from bucketlake.spark.instants import shown_type as as_shown
from bucketlake.sql.tables import catalog_views, describe_json
from bucketlake.sql.tables.columns import spelled
from bucketlake.sql.tables.ddl import accept_database, partition_spec
from bucketlake.sql.tables.partitions import Spec, listed, not_found, require_values, resolved
from bucketlake.sql.tables.rows import frame
from bucketlake.sql.tables.show import PROVIDER, default_text, properties_text, shown_type
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.types.model import DataField, type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.catalogs.model import View
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

Row = tuple[str, str, str | None]
_COLUMNS = "col_name string, data_type string, comment string"
_INFO = "info_name string, info_value string"
_EMPTY: Row = ("", "", "")
_RESERVED = ("comment", "location", "owner")  # properties that Spark gives rows of their own


def describe(cursor: Cursor) -> Statement | None:
    """DESC[RIBE] [TABLE] [EXTENDED | FORMATTED] t [PARTITION (…)] [column] [AS JSON], DESC DATABASE d; queries and
    functions go to Spark, and AS JSON where its grammar has none."""
    cursor.at += 1
    if accept_database(cursor):
        extended = cursor.accept("EXTENDED")
        return _DescribeDatabase(cursor.name(), extended)
    if any(cursor.sees(word) for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(")):
        return None
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    cursor.table()
    partition = partition_spec(cursor) if cursor.accept("PARTITION") else None
    column = None if cursor.done or cursor.sees("AS", "JSON") else cursor.identifier()
    if cursor.accept("AS", "JSON"):
        return _Describe(True, None, partition, as_json=True) if extended and column is None else None
    word = "" if column is None or cursor.subject is None else _deltas(cursor.subject)
    if word and cursor.accept("."):
        raise _no_word(word, f"{column}.{cursor.identifier()}")
    if column is not None and cursor.sees("."):
        raise UnsupportedError(
            "DESCRIBE of a member of a column", column=column, remedy=f"DESCRIBE … {column} shows its whole type"
        )
    return _Describe(extended, column, partition)


# What Delta has behind DESCRIBE -> what to say here of the table, whose database with its dot comes first.
_OF_DELTA = {"history": "SELECT * FROM {}`{}$snapshots`", "detail": "DESCRIBE EXTENDED {}{}"}


def _deltas(parts: tuple[str, ...]) -> str:
    """Delta's word, where a table's name is one; empty where it is not."""
    word = parts[0].lower()
    return word if len(parts) == 1 and word in _OF_DELTA else ""


def _no_word(word: str, table: str) -> UnsupportedError:
    """For Delta's DESCRIBE HISTORY t, which reads here as the column t of a table HISTORY."""
    database, dot, name = table.rpartition(".")
    remedy = _OF_DELTA[word].format(database + dot, name)
    return UnsupportedError(f"DESCRIBE {word.upper()}", table=table, remedy=remedy)


@dataclass(frozen=True, slots=True)
class _DescribeDatabase:
    parts: tuple[str, ...]
    extended: bool

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.parts)

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return _describe_database(lake, names.database(lake, self.parts), self.extended)


@dataclass(frozen=True, slots=True)
class _Describe:
    extended: bool
    column: str | None
    partition: Spec | None
    as_json: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        if self.as_json and self.partition is not None:
            raise UnsupportedError("DESCRIBE … PARTITION … AS JSON", table=name.full, remedy="leave out AS JSON")
        view = catalog_views.find(lake, name)
        if view is not None and self.as_json:
            return describe_json.of_view(lake, name, view)
        if view is not None:
            return self._view(lake, name, view)
        word = _deltas((name.base,))
        if self.column is not None and word and not lake.catalog.table_exists(name.full):
            raise _no_word(word, self.column)
        table = lake.table(name.full)
        if self.as_json:
            return describe_json.of_table(lake, name, table)
        if self.column is None:
            rows = _columns(table)
            if self.extended:
                rows += _details(table)
            if self.partition is not None:
                rows += _partition(lake, name, table, self.partition, self.extended)
            if self.extended:
                rows += _not_null(table)
            return frame(lake, _COLUMNS, rows)
        field = table.schema.field(spelled(table.schema, (self.column,), lambda: Rules.of(lake.spark).sensitive)[0])
        shown = [
            ("col_name", field.name),
            ("data_type", _type(table, field)),
            ("comment", field.description or "NULL"),
        ]
        return frame(lake, _INFO, shown)

    def _view(self, lake: Lake, name: names.LakeName, view: View) -> DataFrame:
        rows = catalog_views.columns(view)
        if self.partition is not None:
            raise InvalidError("a view has no partitions", view=name.full)
        if self.column is None:
            return frame(lake, _COLUMNS, rows + (catalog_views.details(view, name) if self.extended else []))
        sensitive = Rules.of(lake.spark).sensitive
        for column, declared, comment in rows:
            if column == self.column or (not sensitive and column.lower() == self.column.lower()):
                shown = [("col_name", column), ("data_type", declared), ("comment", comment or "NULL")]
                return frame(lake, _INFO, shown)
        raise InvalidError("no such column", view=name.full, column=self.column, columns=[row[0] for row in rows])


def _type(table: LakeTable, field: DataField) -> str:
    return shown_type(as_shown(field.type, table.options))


def _columns(table: LakeTable) -> list[Row]:
    schema = table.schema
    rows: list[Row] = [(f.name, _type(table, f), f.description) for f in schema.fields]
    if schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [(f.name, _type(table, f), f.description) for f in schema.partition_fields]
    return rows


def _details(table: LakeTable) -> list[Row]:
    schema = table.schema
    rows: list[Row] = [
        _EMPTY,
        ("# Detailed Table Information", "", ""),
        ("Name", table.name, ""),
        ("Type", "MANAGED", ""),
    ]
    if schema.comment is not None:
        rows.append(("Comment", schema.comment, ""))
    rows += [
        ("Location", table.path, ""),
        ("Provider", PROVIDER, ""),
        ("Table Properties", properties_text(table), ""),
        ("Paimon Types", ", ".join(f"{f.name} {type_text(f.type)}" for f in schema.fields), ""),
    ]
    defaults = [(f.name, _type(table, f), default_text(f, f.default)) for f in schema.fields if f.default is not None]
    return [*rows, _EMPTY, ("# Column Default Values", "", ""), *defaults] if defaults else rows


def _not_null(table: LakeTable) -> list[Row]:
    found: list[Row] = [(f.name, _type(table, f), "NOT NULL") for f in table.schema.fields if not f.type.nullable]
    return [("# Column Not Null", "", ""), *found] if found else []


def _partition(lake: Lake, name: names.LakeName, table: LakeTable, given: Spec, extended: bool) -> list[Row]:
    """One partition, which the spec has to name whole."""
    spec = resolved(table.table, given)
    keys = table.schema.partition_keys
    if len(spec) != len(keys):
        raise InvalidError(
            "DESCRIBE partition must specify all the correct partition columns", given=list(given), columns=list(keys)
        )
    if not extended:
        require_values(lake, table.table, spec)
        return []
    found = listed(lake, table.table, spec)
    if not found:
        raise not_found(table.table, [spec])
    one = found[0]
    values = ", ".join(f"{key}={'null' if text is None else text}" for key, text in zip(keys, one.texts, strict=True))
    parameters = ", ".join(f"{key}={value}" for key, value in sorted(one.parameters.items()))
    created = datetime.fromtimestamp(one.newest / 1000, timezone.utc).strftime("%a %b %d %H:%M:%S UTC %Y")
    return [
        _EMPTY,
        ("# Detailed Partition Information", "", ""),
        ("Database", name.database, ""),
        ("Table", name.table, ""),
        ("Partition Values", f"[{values}]", ""),
        ("Partition Parameters", f"{{{parameters}}}", ""),
        ("Created Time", created, ""),
        ("Last Access", "UNKNOWN", ""),
        ("Partition Statistics", f"{one.size} bytes, {one.rows} rows", ""),
        _EMPTY,
    ]


def _describe_database(lake: Lake, database: str, extended: bool) -> DataFrame:
    properties = lake.catalog.database_properties(database)
    rows = [
        ("Catalog Name", "paimon"),
        ("Namespace Name", database),
        ("Comment", properties.get("comment", "")),
        ("Location", lake.catalog.database_path(database)),
    ]
    if extended:
        own = redact_options({key: properties[key] for key in sorted(properties) if key not in _RESERVED})
        pairs = ", ".join(f"({key},{value})" for key, value in own.items())
        rows.append(("Properties", f"({pairs})" if pairs else ""))
    return frame(lake, _INFO, rows)
