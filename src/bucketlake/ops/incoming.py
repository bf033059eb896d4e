"""Rows on their way in: columns checked, defaults filled in, canonical layout, row kinds.

Spec: docs/spec/writing.md#rows
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketlake.errors import InvalidError
from bucketlake.schema import KIND_FIELD, TableSchema
from bucketlake.schema_evolution import cast_array
from bucketlake.types import STRING, DataField, DataType, canonical_batch

INSERT, DELETE = 0, 3


class Incoming:
    """Takes batches of any Arrow layout and column order for one table.

    `kinds`: name of an extra column with row kinds (0 +I, 1 -U, 2 +U, 3 -D), None: all rows are inserts.
    """

    def __init__(self, schema: TableSchema, kinds: str | None = None) -> None:
        self._schema, self._kinds = schema, kinds
        self._keyed = bool(schema.primary_keys)
        self._defaults = {f.name: _default(f.default, f.type) for f in schema.fields if f.default is not None}

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns in canonical layout; for primary-key tables with `_VALUE_KIND` behind them.

        Raises InvalidError naming the column: unknown, missing, twice, null where it must not be, value that does not
        fit; for append tables with rows that are no inserts.
        """
        self._check(batch.schema.names)
        rows = canonical_batch(self._filled(batch), self._schema.fields)
        kinds = self._row_kinds(batch)
        if self._keyed:
            return rows.append_column(KIND_FIELD.name, kinds)
        if self._kinds is not None and pc.any(pc.not_equal(kinds, pa.scalar(INSERT, pa.int8()))).as_py():
            raise InvalidError("append tables take inserts only", remedy="define a primary key to update or delete")
        return rows

    def _check(self, names: list[str]) -> None:
        known = {*self._schema.field_names, *([self._kinds] if self._kinds is not None else [])}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InvalidError(
                "columns that the table does not have", columns=unknown, table_columns=list(self._schema.field_names)
            )
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidError("columns that occur more than once", columns=repeated)

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the default in place of nulls and absent columns."""
        for name, value in self._defaults.items():
            place = batch.schema.get_field_index(name)
            target = pa.field(name, value.type)
            if place < 0:
                batch = batch.append_column(target, pa.repeat(value, batch.num_rows))
            elif batch.column(place).null_count:
                column = canonical_batch(batch, [self._nullable(name)]).column(0)
                batch = batch.set_column(place, target, pc.if_else(column.is_null(), value, column))
        return batch

    def _nullable(self, name: str) -> DataField:
        field = self._schema.field(name)
        return replace(field, type=field.type.with_nullable(True))

    def _row_kinds(self, batch: pa.RecordBatch) -> pa.Array:
        if self._kinds is None:
            return pa.array(np.zeros(batch.num_rows, np.int8))
        place = batch.schema.get_field_index(self._kinds)
        column = pc.cast(batch.column(place), pa.int8()) if place >= 0 else pa.nulls(batch.num_rows, pa.int8())
        values = column.fill_null(-1).to_numpy()
        if batch.num_rows and (values.min() < INSERT or values.max() > DELETE):
            raise InvalidError("not a row kind", column=self._kinds, remedy="use 0 (+I), 1 (-U), 2 (+U) or 3 (-D)")
        return column


def _default(text: str, kind: DataType) -> pa.Scalar:
    """The value of a column's default: text in Paimon's form, quotes around it or not."""
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    return cast_array(pa.array([plain]), STRING, kind)[0]
