"""Rows on their way in: columns checked, defaults filled in, canonical layout, row kinds, kinds that are left out.

Spec: docs/spec/writing.md#rows, docs/spec/merge.md#row-kinds
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.lazy import pc
from bucketlake.lsm.engines.engines import is_retract
from bucketlake.lsm.engines.rules import refused_retracts
from bucketlake.options.options import written_formats
from bucketlake.schema.default import default_scalar
from bucketlake.schema.schema import KIND_FIELD, TableSchema
from bucketlake.types.arrow import canonical_array
from bucketlake.types.model import DataField, Root, arrow_type, canonical_batch, type_text

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
KIND_TEXTS = ("+I", "-U", "+U", "-D")
_TEXT = pa.field("", pa.string())


class Incoming:
    """Takes batches of any Arrow layout and column order for one table.

    `kinds`: name of an extra column with row kinds: integers (0 +I, 1 -U, 2 +U, 3 -D) or these texts; without one, a
    column `_VALUE_KIND` is taken for it, else the table's `rowkind.field` says, else all rows are inserts.
    `ignore-delete` and `ignore-update-before` leave rows out by their kind.
    """

    def __init__(self, schema: TableSchema, kinds: str | None = None) -> None:
        options = schema.table_options
        self._schema, self._kinds = schema, kinds
        self._keyed = bool(schema.primary_keys)
        self._kind_field: str | None = options.get("rowkind.field")
        ignored = [UPDATE_BEFORE, DELETE] if options.get("ignore-delete") else []
        ignored += [UPDATE_BEFORE] if options.get("ignore-update-before") else []
        self._ignored = pa.array(ignored, pa.int8())
        self._refused = refused_retracts(options) if self._keyed else None
        identity = {*schema.trimmed_primary_keys, *schema.bucket_keys}
        unpadded = "orc" in written_formats(options)
        self._unpadded = [f for f in schema.fields if unpadded and f.name in identity and f.type.root is Root.CHAR]
        self._defaults = {f.name: f for f in schema.fields if f.default is not None}
        self._values: dict[str, pa.Scalar] = {}

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns in canonical layout; for primary-key tables with `_VALUE_KIND` behind them.

        Raises InvalidError naming the column: unknown, missing, twice, null where it must not be, value that does not
        fit, no row kind; for rows of kinds that the table's merge engine does not take, and for append tables with rows
        that are no inserts. UnsupportedError for padded CHAR keys in ORC.
        """
        given = self._kinds
        if given is None and KIND_FIELD.name in batch.schema.names:
            given = KIND_FIELD.name
        self._check(batch.schema.names, given)
        rows = canonical_batch(self._filled(batch), self._schema.fields)
        self._check_padding(rows)
        kinds = self._row_kinds(batch, given)
        if kinds is None:
            kinds = pa.array(np.zeros(batch.num_rows, np.int8))
        else:
            if len(self._ignored):
                keep = pc.invert(pc.is_in(kinds, self._ignored))
                rows, kinds = rows.filter(keep), kinds.filter(keep)
            self._refuse(kinds)
        return rows.append_column(KIND_FIELD.name, kinds) if self._keyed else rows

    def _check_padding(self, rows: pa.RecordBatch) -> None:
        """Readers of ORC take the spaces at the end of CHAR values off: hashes of what was written, which chose buckets
        and stand in indexes, would not be those of what is read."""
        for item in self._unpadded:
            if pc.any(pc.ends_with(rows.column(item.name), " ")).as_py():
                raise UnsupportedError(
                    "ORC does not keep the spaces at the end of CHAR keys",
                    column=item.name,
                    type=type_text(item.type),
                    remedy="give the key the type VARCHAR, or the table another file.format; in Spark, "
                    "SET spark.sql.legacy.charVarcharAsString = true leaves the padding out",
                )

    def _refuse(self, kinds: pa.Array) -> None:
        if self._refused is not None and is_retract(kinds.to_numpy()).any():
            raise InvalidError(self._refused)
        if not self._keyed and kinds.to_numpy().any():
            raise InvalidError("append tables take inserts only", remedy="define a primary key to update or delete")

    def _check(self, names: list[str], kinds: str | None) -> None:
        known = set(self._schema.field_names) | ({kinds} if kinds is not None else set())
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InvalidError(
                "columns that the table does not have",
                columns=unknown,
                table_columns=list(self._schema.field_names),
                remedy=did_you_mean(unknown[0], [name for name in self._schema.field_names if name not in names]),
            )
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        if repeated:
            raise InvalidError("columns that occur more than once", columns=repeated)

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the default in place of nulls and absent columns; other absent columns are null."""
        for name in self._defaults:
            place = batch.schema.get_field_index(name)
            if place >= 0 and not batch.column(place).null_count:
                continue
            value = self._value(name)
            target = pa.field(name, value.type)
            if place < 0:
                batch = batch.append_column(target, pa.repeat(value, batch.num_rows))
            elif value.is_valid:
                column = canonical_batch(batch, [self._nullable(name)]).column(0)
                batch = batch.set_column(place, target, pc.if_else(column.is_null(), value, column))
        given = set(batch.schema.names)
        absent = [field for field in self._schema.fields if field.name not in given and field.type.nullable]
        if not absent:
            return batch
        added = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in absent])
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in added)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, *added], batch.schema.metadata))

    def _value(self, name: str) -> pa.Scalar:
        """A column's default, read when a row first needs it: of a table that others made it may be no value."""
        if name not in self._values:
            self._values[name] = default_scalar(self._defaults[name])
        return self._values[name]

    def _nullable(self, name: str) -> DataField:
        field = self._schema.field(name)
        return replace(field, type=field.type.with_nullable(True))

    def _row_kinds(self, batch: pa.RecordBatch, given: str | None) -> pa.Array | None:
        """The rows' kinds as numbers; None: all are inserts."""
        name = given or self._kind_field
        if name is None:
            return None
        place = batch.schema.get_field_index(name)
        column = told = batch.column(place) if place >= 0 else pa.nulls(batch.num_rows, pa.int8())
        if column.null_count and given is None:
            raise InvalidError("Row kind cannot be null.", column=name)
        if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
            column = pc.index_in(canonical_array(column, _TEXT, name), pa.array(KIND_TEXTS))
        values = pc.cast(column, pa.int64(), safe=False).fill_null(-1)
        known = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, DELETE))
        if not pc.all(known).as_py():
            value, remedy = told[pc.index(known, False).as_py()].as_py(), "use +I, -U, +U, -D, or their numbers 0 to 3"
            raise InvalidError("not a row kind", column=name, value=value, remedy=remedy)
        return values.cast(pa.int8())
