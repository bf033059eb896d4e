"""What rows are ordered by: columns and a strategy, checked before anything is read.

    SortOrder.of(schema, strategy, columns, options)     order | zorder | hilbert
        .keys(batch) -> arrays                            rows are in order where these are, column after column
        .ranks(batch) -> integers                         the same as one ascending number a row; equal for equal keys
    strategy_of(options, columns) -> str                  `clustering.strategy`, auto resolved by the number of columns

Spec: docs/spec/clustering.md
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.lsm.keys import ranks
from bucketlake.ops.cluster.curves import curves_take, hilbert, zorder
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import DataField, arrow_type, type_text
from bucketlake.values import dataclass

STRATEGIES = ("order", "zorder", "hilbert")
_FEW = 5  # columns from which on "auto" takes the Hilbert curve
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortOrder:
    """An order of rows. `fields`: the columns, `var_length`: bytes of texts that count in a z-order. Picklable."""

    strategy: str
    fields: tuple[DataField, ...]
    var_length: int = 8

    @classmethod
    def of(cls, schema: TableSchema, strategy: str, columns: Sequence[str], options: TableOptions) -> SortOrder:
        """The order, or InvalidError for a strategy or column that is not there, UnsupportedError for a type that has
        no order."""
        if strategy.lower() not in STRATEGIES:
            raise InvalidError(f"cannot match order type: {strategy}", known=list(STRATEGIES))
        if not columns:
            raise InvalidError("order column could not be empty")
        for name in columns:
            if name not in schema.field_names:
                known = ",".join(schema.field_names)
                what = f"Can't find column {name} in table columns. Possible columns are [{known}]"
                raise InvalidError(what, remedy=did_you_mean(name, schema.field_names))
        if len(set(columns)) < len(columns):
            raise InvalidError("a column is named twice in an order", columns=list(columns))
        fields = tuple(schema.select(list(columns)))
        for item in fields:
            if not curves_take(arrow_type(item.type)):
                what = f"Cannot use column {item.name} in {strategy.lower()}, the type is unsupported"
                raise UnsupportedError(what, type=type_text(item.type))
        length = int(options.get("zorder.var-length-contribution"))
        if length < 1:
            raise InvalidError("not a number of bytes", option="zorder.var-length-contribution", value=length)
        return cls(strategy.lower(), fields, length)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [item.name for item in self.fields]

    @property
    def is_curve(self) -> bool:
        """Whether rows are ordered by one computed key."""
        return self.strategy != "order"

    def keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """What orders rows in the canonical layout: the columns, or the bytes of their place on a curve."""
        columns = [rows.column(name) for name in self.columns]
        if self.strategy == "zorder":
            return [zorder(columns, self.var_length)]
        return [hilbert(columns)] if self.strategy == "hilbert" else columns

    def ranks(self, rows: pa.RecordBatch) -> Ranks:
        """A number a row that ascends in this order, nulls first (on a Hilbert curve last)."""
        return ranks_of(self.keys(rows))


def ranks_of(columns: Sequence[pa.Array]) -> Ranks:
    """A number a row that ascends by these columns, nulls first; equal for equal rows."""
    count = len(columns[0])
    if not count:
        return np.zeros(0, np.int64)
    return ranks(np.arange(count), np.zeros(1, np.int64), list(columns))


def clustering_columns(options: TableOptions) -> list[str]:
    """The names of `clustering.columns`, none where it is not set."""
    text = options.get("clustering.columns") or ""
    return [name.strip() for name in text.split(",")] if text else []


def strategy_of(options: TableOptions, columns: Sequence[str]) -> str:
    """`clustering.strategy`; auto: an order for one column, a z-order for less than five, else a Hilbert curve."""
    strategy = str(options.get("clustering.strategy"))
    if strategy != "auto":
        return strategy
    return "order" if len(columns) == 1 else "zorder" if len(columns) < _FEW else "hilbert"


def clustering_order(schema: TableSchema, options: TableOptions) -> SortOrder | None:
    """The order that the options `clustering.*` of a table without primary key and buckets ask for, None for none.
    Errors: as `SortOrder.of`."""
    columns = clustering_columns(options)
    if not columns or schema.primary_keys:
        return None
    return SortOrder.of(schema, strategy_of(options, columns), columns, options)


def write_order(schema: TableSchema, options: TableOptions) -> SortOrder | None:
    """The order in which a batch write puts rows into files: none in tables with buckets, nor where clustering is
    incremental unless `clustering.incremental.optimize-write` asks for it. Errors: as `SortOrder.of`."""
    if schema.bucket_mode is not BucketMode.UNAWARE:
        return None
    if options.get("clustering.incremental") and not options.get("clustering.incremental.optimize-write"):
        return None
    return clustering_order(schema, options)
