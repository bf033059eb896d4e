"""A table that Bucketlake makes without Spark, and beside it a model of what its rows must then be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests import corpus
from tests.interop.values import arrow_rows, canonical

from bucketlake import Catalog, Table
from bucketlake.schema.change import SchemaChange
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One table. `columns`: name -> type in Flink's spelling; `steps` does to a `Maker` what the case is about.

    `copied`: a table alike is filled by Flink from this one, and buckets, files and statistics must be equal.
    """

    name: str
    covers: str
    columns: Mapping[str, str]
    steps: Callable[[Maker], None]
    partitions: Sequence[str] = ()
    keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    copied: bool = False

    def fields(self) -> list[DataField]:
        """The columns."""
        texts = self.columns.items()
        return [DataField(number, name, parse_type_text(text, "flink")) for number, (name, text) in enumerate(texts)]

    def create(self, catalog: Catalog, database: str, name: str | None = None) -> Table:
        """The empty table."""
        path = f"{database}.{name or self.name}"
        return catalog.create_table(path, self.fields(), self.partitions, self.keys, self.options)

    def make(self, catalog: Catalog, database: str) -> Maker:
        """The table, filled, with its model."""
        maker = Maker(self.create(catalog, database))
        self.steps(maker)
        return maker


class Maker:
    """Does everything twice: to a table, and to `rows`, a list in which a later row of a key replaces an earlier."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[str, dict[str, Any]] = {}
        self._count = 0

    def write(self, *rows: Row, **options: Any) -> None:
        """Append, or upsert."""
        self.table.write_arrow(to_arrow(self.table, rows), **options)
        self._put(rows)

    def merge(self, batch: pa.Table) -> None:
        """Append, or upsert, rows whose columns have wider types, which the table's get."""
        options = {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"}
        self.table.with_options(options).write_arrow(batch)
        self.table = self.table.refresh()
        self._put([tuple(row.values()) for row in batch.to_pylist()])

    def overwrite(self, *rows: Row, partition: Mapping[str, Any] | None = None, **options: Any) -> None:
        """Overwrite a partition, those that the rows lie in, or everything, by the engine's rule."""
        self.table.write_arrow(to_arrow(self.table, rows), "overwrite", partition, **options)
        if partition is not None:
            self._remove(lambda row: all(row[key] == value for key, value in partition.items()))
        elif self.table.schema.partition_keys and options.get("dynamic_partition_overwrite", True):
            keys = self.table.schema.partition_keys
            touched = [[row[key] for key in keys] for row in self._dicts(rows)]
            self._remove(lambda row: [row[key] for key in keys] in touched)
        else:
            self.rows.clear()
        self._put(rows)

    def delete(self, where: str, matches: Callable[[dict[str, Any]], bool]) -> None:
        """Delete by key."""
        self.table.delete(where)
        self._remove(matches)

    def truncate(self) -> None:
        """Remove all rows."""
        self.table.truncate()
        self.rows.clear()

    def drop(self, **partition: Any) -> None:
        """Drop partitions."""
        self.table.drop_partitions([partition])
        self._remove(lambda row: all(row[key] == value for key, value in partition.items()))

    def alter(self, *changes: SchemaChange, then: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
        """Change the schema; `then` maps each row that is there to its new form."""
        self.table = self.table.alter(*changes)
        if then is not None:
            self.rows = {key: then(row) for key, row in self.rows.items()}

    def expected(self) -> list[str]:
        """The rows that every engine must read, in `values.canonical` form."""
        names = self.table.schema.field_names
        return canonical(tuple(row[name] for name in names) for row in self.rows.values())

    def _dicts(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        fields = self.table.schema.fields
        names = [item.name for item in fields]
        return [dict(zip(names, row, strict=True)) for row in arrow_rows(to_arrow(self.table, rows), fields)]

    def _put(self, rows: Sequence[Row]) -> None:
        for row in self._dicts(rows):
            self._count += 1
            keys = self.table.schema.primary_keys
            label = json.dumps(corpus.encode([row[key] for key in keys])) if keys else str(self._count)
            self.rows[label] = row

    def _remove(self, matches: Callable[[dict[str, Any]], bool]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if not matches(row)}


def to_arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table of the table's schema; MAPs may be dictionaries, timestamps of nanoseconds integers."""
    schema = arrow_schema(table.schema.fields)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, item.type) for values, item in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
