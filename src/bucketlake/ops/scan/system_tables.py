"""System tables over a table's rows: `t$ro`, `t$audit_log`, `t$binlog`, `t$row_tracking`.

    view_of(name) -> RowView | None                   by the name behind `$`
    RowView.schema(table schema, options)             the columns that it shows
    RowView.narrowed(store, scan)                     which files it reads
    read_view(store, view, split, columns, predicate) one split's rows, as the view shows them

Spec: docs/spec/incremental.md#system-tables, docs/sql/system-tables.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import lazy, np, npt, pa, pc
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.ops.rows.column_files import narrowed
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import Scan
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate, columns_of, restrict
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TRACKING, TRACKING_FIELDS, TableSchema, column_names
from bucketlake.types.model import STRING, DataField, DataType, Root, arrow_schema
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.lsm import changelog as changelogs
    from bucketlake.ops.rows import read as reading
else:  # which view a name means is asked of every table that is opened
    changelogs = lazy("bucketlake.lsm.changelog")
    reading = lazy("bucketlake.ops.rows.read")

__all__ = ["ROW_VIEWS", "RowView", "read_view", "view_of", "view_schema"]

READ_OPTIMIZED, AUDIT_LOG, BINLOG, ROW_TRACKING = "ro", "audit_log", "binlog", "row_tracking"
ROW_VIEWS = (READ_OPTIMIZED, AUDIT_LOG, BINLOG, ROW_TRACKING)
ROWKIND = DataField(2147483643, "rowkind", STRING)
SEQUENCE_OPTION = "table-read.sequence-number.enabled"
_UPDATE_BEFORE, _UPDATE_AFTER = 1, 2

Mask = npt.NDArray["np.bool_"]


@cache
def _texts() -> pa.Array:
    return pa.array(["+I", "-U", "+U", "-D"])


@dataclass(frozen=True, slots=True)
class RowView:
    """A system table that shows a table's rows. `name`: one of `ROW_VIEWS`. `follows`: for a stream, whose reader knows
    nothing of the rows that were deleted before it began; else deletes that compaction has left are shown as well."""

    name: str
    follows: bool = False

    @property
    def computes(self) -> bool:
        """Whether its rows are not those of the table."""
        return self.name != READ_OPTIMIZED

    def schema(self, store: Store) -> TableSchema:
        """The columns that it shows; without a primary key where rows may show a key more than once."""
        table = store.schema
        if not self.computes:
            return table
        fields = table.fields
        if self.name == ROW_TRACKING:
            return replace(table, fields=(*fields, *TRACKING_FIELDS))
        if self.name == BINLOG:
            fields = tuple(replace(f, type=DataType(Root.ARRAY, element=f.type.with_nullable(True))) for f in fields)
        special = (ROWKIND, SEQUENCE_FIELD) if store.options.get(SEQUENCE_OPTION) else (ROWKIND,)
        partitions = () if self.name == BINLOG else table.partition_keys
        return replace(table, fields=(*special, *fields), primary_keys=(), partition_keys=partitions)

    def check_options(self, given: Mapping[str, Any]) -> None:
        """InvalidError for dynamic options that the view cannot take."""
        if self.computes and str(given.get(SEQUENCE_OPTION, "false")).lower() == "true":
            raise InvalidError(
                f"{SEQUENCE_OPTION} is not supported by hint.", remedy="ALTER TABLE … SET it on the table"
            )

    def narrowed(self, store: Store, scan: Scan) -> Scan:
        """The scan of the table that gives the view's rows."""
        if self.name == READ_OPTIMIZED:
            keyed = bool(store.schema.primary_keys)
            return replace(scan, level=CompactionRule.of(store.options).num_levels - 1) if keyed else scan
        return replace(scan, where=self._below(store, scan.where))

    def _below(self, store: Store, predicate: Predicate | None) -> Predicate | None:
        """What a condition on the view's rows says of the table's."""
        if predicate is None or self.name == BINLOG:
            return None
        more = TRACKING if self.name == ROW_TRACKING else ()
        return restrict(predicate, (*store.schema.field_names, *more))

    def read(
        self, store: Store, split: Split, columns: Sequence[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a split as audit log or binlog shows them."""
        schema = self.schema(store)
        wanted = column_names(schema, columns)
        predicate = None if predicate is None else reading.exact_part(predicate)
        asked = dict.fromkeys([*wanted, *(columns_of(predicate) if predicate is not None else ())])
        target = arrow_schema(schema.select(list(asked)))
        for batch in self._shown(store, split, target, self._below(store, predicate)):
            rows = batch if predicate is None else batch.filter(mask(predicate, batch))
            if rows.num_rows:
                yield rows.select(wanted)

    def _shown(
        self, store: Store, split: Split, target: pa.Schema, predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name in target.names if name != ROWKIND.name]
        if self.name == ROW_TRACKING:
            for batch in reading.read_split(tracked(store), split, names, predicate):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=target)
            return
        if self.name == AUDIT_LOG:
            for batch in self._with_kinds(store, split, names, predicate):
                yield _batch(batch, batch.column(KIND_FIELD.name), target)
            return
        keys = list(store.schema.primary_keys) if split.changes else []
        batches = self._with_kinds(store, split, list(dict.fromkeys([*names, *keys])), predicate)
        for batch, joins in _paired(batches, keys) if keys else ((found, None) for found in batches):
            yield _packed(batch, joins, target)

    def _with_kinds(
        self, store: Store, split: Split, names: list[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """The columns of all rows, deletes too, with their kinds; those of append tables are inserted."""
        if store.schema.primary_keys:
            deletes = not self.follows or split.changes or split.before is not None
            yield from reading.read_kinds(store, split, [*names, KIND_FIELD.name], predicate, deletes)
            return
        for batch in reading.read_split(store, split, names, predicate):
            yield batch.append_column(KIND_FIELD.name, pa.array(np.zeros(batch.num_rows, np.int8)))


def view_of(name: str | None) -> RowView | None:
    """The view of this name; None where it is another table's."""
    return RowView(name) if name in ROW_VIEWS else None


def view_schema(store: Store, view: RowView | None) -> TableSchema:
    """The columns of a table, or of a view of it."""
    return store.schema if view is None else view.schema(store)


def read_view(
    store: Store,
    view: RowView | None,
    split: Split,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split as the view (None: the table itself) shows them; see `ops.rows.read.read_split`."""
    if view is None or not view.computes:
        wanted = column_names(store.schema, columns)
        parts = narrowed(store, split, {*wanted, *(() if predicate is None else columns_of(predicate))})
        return chain.from_iterable(reading.read_split(store, part, wanted, predicate) for part in parts)
    return view.read(store, split, column_names(view.schema(store), columns), predicate)


def _batch(rows: pa.RecordBatch, kinds: pa.Array, target: pa.Schema) -> pa.RecordBatch:
    arrays = [_texts().take(kinds) if f.name == ROWKIND.name else rows.column(f.name) for f in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _paired(batches: Iterator[pa.RecordBatch], keys: list[str]) -> Iterator[tuple[pa.RecordBatch, Mask]]:
    """The batches, cut so that an update's two rows are in one, and which rows join the one before them: the +U of a
    key right after its -U."""
    held: pa.RecordBatch | None = None
    for found in batches:
        batch = found if held is None else pa.concat_batches([held, found])
        kinds = batch.column(KIND_FIELD.name).to_numpy()
        held = batch.slice(batch.num_rows - 1) if kinds[-1] == _UPDATE_BEFORE else None
        batch = batch.slice(0, batch.num_rows - (held is not None))
        if batch.num_rows:
            yield batch, _joins(batch, keys)
    if held is not None:
        yield held, _joins(held, keys)


def _joins(batch: pa.RecordBatch, keys: list[str]) -> Mask:
    kinds = batch.column(KIND_FIELD.name).to_numpy()
    joins = np.zeros(batch.num_rows, np.bool_)
    joins[1:] = (kinds[:-1] == _UPDATE_BEFORE) & (kinds[1:] == _UPDATE_AFTER)
    later = np.flatnonzero(joins)
    one, two = pa.array(later - 1), pa.array(later)
    for name in keys:
        column = batch.column(name)
        joins[later] &= changelogs.same_values(pc.take(column, one), pc.take(column, two))
    return joins


def _packed(batch: pa.RecordBatch, joins: Mask | None, target: pa.Schema) -> pa.RecordBatch:
    """Rows as arrays: of one value each, or of two where a row joins the one before it."""
    starts = np.arange(batch.num_rows) if joins is None else np.flatnonzero(~joins)
    ends = np.append(starts[1:], batch.num_rows)
    offsets = pa.array(np.append(starts, batch.num_rows).astype(np.int32))
    arrays = []
    for item in target:
        if item.name == ROWKIND.name:
            arrays.append(_texts().take(batch.column(KIND_FIELD.name).take(pa.array(ends - 1))))
        elif item.name == SEQUENCE_FIELD.name:
            arrays.append(batch.column(item.name).take(pa.array(starts)))
        else:
            arrays.append(pa.ListArray.from_arrays(offsets, batch.column(item.name), type=item.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)
