"""What a system table is: columns, and how its rows are made, batch by batch, of a table's metadata.

    SystemTable.read(store, columns, where, limit)     what a reader gets
    listed(table, ask, items, columns)                 how a table's `rows` are made: a column a function over items

A condition prunes twice: a table may leave out what it need not read (`Ask.pinned`, `Ask.kept`), and what was read is
filtered before the dearer columns are made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

from bucketlake.errors import UnsupportedError
from bucketlake.lazy import lazy, pa
from bucketlake.ops.scan.select import INCREMENTAL_KEYS, TRAVEL_KEYS, Selection, select_snapshot
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate, columns_of, key_values, restrict
from bucketlake.schema.schema import TableSchema, column_names
from bucketlake.types.model import MAX_LENGTH, DataField, DataType, Root, arrow_schema
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.rows import read as reading
else:  # the class is known to every table's handle
    reading = lazy("bucketlake.ops.rows.read")

BATCH = 20_000  # rows made at a time
T = TypeVar("T")
Column = Callable[[Sequence[T]], "pa.Array"]

TEXT = DataType(Root.VARCHAR, length=MAX_LENGTH)
LONG = DataType(Root.BIGINT)
INT = DataType(Root.INT)
FLAG = DataType(Root.BOOLEAN)
MOMENT = DataType(Root.TIMESTAMP, precision=3)


def each(kind: pa.DataType, value: Callable[[Any], Any]) -> Column[Any]:
    """A column of one value an item."""
    return lambda items: pa.array([value(item) for item in items], kind)


def texts(value: Callable[[Any], str | None]) -> Column[Any]:
    """A column of one text an item."""
    return each(pa.string(), value)


def longs(value: Callable[[Any], int | None]) -> Column[Any]:
    """A column of one number an item."""
    return each(pa.int64(), value)


def columns_table(*columns: tuple[str, DataType, bool]) -> tuple[DataField, ...]:
    """Columns of a system table: name, type, whether it may be null."""
    return tuple(DataField(at, name, kind.with_nullable(null)) for at, (name, kind, null) in enumerate(columns))


@dataclass(frozen=True, slots=True)
class Ask:
    """What a reader needs of a system table: columns, and rows for which `where` is true (others may be left out)."""

    columns: tuple[str, ...]
    where: Predicate | None = None

    def pinned(self, column: str) -> list[Any] | None:
        """The only values that a column can have in the rows asked for; None: any."""
        found = None if self.where is None else key_values(self.where, [column])
        return None if found is None else [value for (value,) in found]

    def kept(self, column: DataField, values: Sequence[Any]) -> list[Any]:
        """Those of a column's values that rows asked for can have."""
        where = None if self.where is None else restrict(self.where, [column.name])
        if where is None:
            return list(values)
        array = pa.array(values, arrow_schema([column]).field(0).type)
        return list(compress(values, _hits(where, {column.name: array}, len(values))))

    def wants(self, *columns: str) -> bool:
        """Whether one of these is shown or asked about."""
        asked = set(self.columns) | (columns_of(self.where) if self.where is not None else frozenset())
        return not asked.isdisjoint(columns)


Rows = Callable[[Store, Ask], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True)
class SystemTable:
    """A system table. `rows`: batches with the columns asked for, in that order; `travels`: whether `scan.*` options
    choose the snapshot that it shows; `of_catalog`: it stands in `sys`, not beside a table; `about`: what each column
    means, for documents."""

    name: str
    fields: tuple[DataField, ...]
    rows: Rows
    key: tuple[str, ...] = ()
    travels: bool = False
    of_catalog: bool = False
    about: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def schema(self, store: Store) -> TableSchema:
        """Its columns as those of a table without keys, options and partitions."""
        table = store.schema
        return replace(table, fields=self.fields, primary_keys=(), partition_keys=(), options={}, comment=None)

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Any option that the table takes."""

    def read(
        self, store: Store, columns: Sequence[str], where: Predicate | None = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows for which `where`, which must be exact, is true; at most `limit`."""
        names = tuple(columns)
        asked = dict.fromkeys([*names, *(columns_of(where) if where is not None else ())])
        left = limit
        for batch in self.rows(store, Ask(tuple(asked), where)):
            rows = batch if where is None else batch.filter(mask(where, batch))
            rows = rows.select(names) if left is None else rows.select(names).slice(0, left)
            left = None if left is None else left - rows.num_rows
            if rows.num_rows:
                yield rows
            if left is not None and left <= 0:
                return

    def reader(
        self,
        store: Store,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """As `read`, with the schema; all columns by default. InvalidError names a column that is not there."""
        names = column_names(self.schema(store), columns)
        chosen = [item for name in names for item in self.fields if item.name == name]
        return pa.RecordBatchReader.from_batches(arrow_schema(chosen), self.read(store, names, where, limit))


def listed(
    fields: Sequence[DataField],
    ask: Ask,
    items: Sequence[T],
    columns: Mapping[str, Column[T]],
    cheap: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of these items, one each. `columns`: how each is made; `cheap`: those to filter by before the others."""
    chosen = [item for name in ask.columns for item in fields if item.name == name]
    target = arrow_schema(chosen)
    stages = [] if ask.where is None else [restrict(ask.where, cheap), ask.where]
    for start in range(0, len(items), BATCH):
        part = items[start : start + BATCH]
        known: dict[str, pa.Array] = {}
        for stage in (stage for stage in stages if stage is not None):
            known.update({name: columns[name](part) for name in columns_of(stage) - known.keys()})
            hits = _hits(stage, known, len(part))
            part = list(compress(part, hits))
            known = {name: values.filter(pa.array(hits, pa.bool_())) for name, values in known.items()}
        if part:
            arrays = [known[f.name] if f.name in known else columns[f.name](part) for f in target]
            yield (
                pa.RecordBatch.from_arrays(
                    [array.cast(f.type) for array, f in zip(arrays, target, strict=True)], schema=target
                )
                if arrays
                else _counted(len(part))
            )


def _counted(rows: int) -> pa.RecordBatch:
    """A batch of so many rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _hits(where: Predicate, columns: Mapping[str, pa.Array], rows: int) -> list[bool]:
    if not columns:  # a constant
        batch = _counted(rows)
    else:
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return [bool(hit) for hit in mask(where, batch).to_pylist()]


# ---------------------------------------------------------------------------------------------- snapshots


def shown_selection(store: Store) -> Selection:
    """The snapshot that a system table shows: of the `scan.*` options, or the newest. UnsupportedError for options that
    mean what came between two snapshots."""
    given = [key for key in INCREMENTAL_KEYS if store.options.is_set(key)]
    if given:
        raise UnsupportedError(
            "this system table shows one snapshot, not what came between two",
            option=given[0],
            table=store.paths.root,
            remedy="choose a snapshot by scan.snapshot-id or scan.tag-name",
        )
    if any(store.options.is_set(key) for key in (*TRAVEL_KEYS, "scan.version")):
        return select_snapshot(store)
    return Selection(store.latest_snapshot())


def as_of(store: Store) -> Store:
    """The store with the schema of the snapshot that the options choose."""
    if not any(store.options.is_set(key) for key in (*TRAVEL_KEYS, "scan.version")):
        return store
    snapshot = select_snapshot(store).snapshot
    if snapshot is None or snapshot.schema_id == store.schema.id:
        return store
    past = replace(store.schema_of(snapshot.schema_id), options=store.schema.options)
    return store.with_schema(past)


def pinned(store: Store) -> Store:
    """The store with the snapshot that it shows now named in its options, so that it shows it later too."""
    if any(store.options.is_set(key) for key in (*TRAVEL_KEYS, "scan.version", *INCREMENTAL_KEYS)):
        return store
    snapshot = store.latest_snapshot()
    return store if snapshot is None else store.with_options({"scan.snapshot-id": snapshot.id})
