"""What of the target a MERGE has to read: columns, and rows that can match.

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import pyarrow as pa
from pyspark.sql import types as T

from bucketlake.lazy import pc
from bucketlake.ops.rows.among import Among, has_one_form
from bucketlake.predicate.tree import Compare, Constant, In, Predicate, conjunction
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.merge.clauses import DELETE, UPDATE, Clause, Equality, Merge, Side
from bucketlake.spark.merge.held import Held
from bucketlake.spark.read.hidden import offered
from bucketlake.spark.types import spark_type
from bucketlake.types.model import DataField, Root, arrow_type

Prune = Callable[[Held], "Predicate | None"]
"""What is known of the rows of the target that matter, given the source; None: nothing."""
MOST_VALUES = 200  # of a key, in a list; of more only the range is told
_STAR = re.compile(r"[^\w\s`'\")\]]\s*\*")  # one that stands for columns, rather than between factors
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)


def needed_columns(
    merge: Merge, schema: TableSchema, whole_deletes: bool = True, asked: Collection[str] | None = None
) -> tuple[str, ...] | None:
    """The columns of the target that a MERGE reads, None for all: the primary key, those named anywhere, and where rows
    keep values, all; also where rows are deleted, if these are written whole. `asked`: the columns of which values of
    updated rows are asked, where these are not all."""
    if _STAR.search(merge.words):
        return None
    kept: set[str] = set()
    for clause in merge.clauses:
        if clause.kind == DELETE and whole_deletes:
            return None
        if clause.kind == UPDATE:
            kept |= set(schema.field_names if asked is None else asked) - _replaced(clause)
    if kept and asked is None:
        return None
    wanted = {*schema.primary_keys, *schema.partition_keys, *kept}
    return tuple(name for name in schema.field_names if name in wanted or mentioned(merge.words, name))


def extra_columns(merge: Merge, schema: TableSchema) -> tuple[str, ...]:
    """The metadata columns of the target that a MERGE names."""
    return tuple(name for name in offered(schema) if name.lower() in merge.words)


def _replaced(clause: Clause) -> set[str]:
    """The columns of which an UPDATE keeps nothing."""
    return {value.path[0] for value in clause.values if len(value.path) == 1 and not value.keeps}


def mentioned(words: str, name: str) -> bool:
    """Whether a folded text may name a column: it is in there."""
    return name.lower() in words or name.replace("`", "``").lower() in words


def matching(merge: Merge, schema: TableSchema, source: Held, known: Predicate | None) -> Predicate | None:
    """What holds for rows that matter. `known`: what the condition says of the target alone.

    Rows that no source row matches matter where there are clauses for them.
    """
    if merge.of(Side.NOT_MATCHED_BY_SOURCE):
        return None
    parts = [] if known is None else [known]
    parts += [found for item in merge.equalities if (found := _of_key(item, schema, source.data)) is not None]
    return conjunction(parts) if parts else None


def known_values(merge: Merge, schema: TableSchema, source: Held) -> Among | None:
    """What rows of the target that match a row of the source have in columns that ON compares: values of a few source
    rows, in types whose equal values are the same everywhere. None: that is not known, or other rows matter, too."""
    if source.data is None or merge.of(Side.NOT_MATCHED_BY_SOURCE):
        return None
    kinds: dict[str, list[T.DataType]] = {}
    for column in source.schema.fields:
        kinds.setdefault(column.name, []).append(column.dataType)
    beside: dict[str, str] = {}
    for item in merge.equalities:
        kind = schema.field(item.column).type
        if item.source is not None and kinds.get(item.source) == [spark_type(kind)] and has_one_form(kind):
            beside.setdefault(item.column, item.source)
    if not beside:
        return None
    fields = [item for item in schema.fields if item.name in beside]
    return Among.of(fields, source.data.select([beside[item.name] for item in fields]))


def _of_key(item: Equality, schema: TableSchema, data: pa.Table | None) -> Predicate | None:
    """What the source's values say of a column that must equal one of them."""
    if data is None or item.source is None:
        return None
    places = [at for at, name in enumerate(data.column_names) if name == item.source]
    field = schema.field(item.column)
    if len(places) != 1 or not _alike(field, data.schema.types[places[0]]):
        return None
    values = _held_by(field, data.column(places[0]).drop_null())
    if not len(values):
        return Constant(False)
    found = pc.min_max(values)
    try:
        if len(few := values.unique()) <= MOST_VALUES:
            return In(field.name, tuple(few.to_pylist()))
        least, most = found["min"].as_py(), found["max"].as_py()
    except OverflowError:  # a date that Python lacks, as literals of conditions are
        return None
    return conjunction([Compare(field.name, ">=", least), Compare(field.name, "<=", most)])


def _held_by(field: DataField, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values that a column can hold: integers of the source may be wider, and equal none of the column's then."""
    if field.type.root not in _INTEGERS:
        return values
    most = (1 << (arrow_type(field.type).bit_width - 1)) - 1
    wide = values.cast(pa.int64())
    return wide.filter(pc.and_(pc.less_equal(wide, most), pc.greater_equal(wide, -most - 1)))


def _alike(field: DataField, kind: pa.DataType) -> bool:
    """Whether values compare in Spark as they do here."""
    if field.type.root in _INTEGERS:
        return bool(pa.types.is_integer(kind))
    if field.type.root is Root.VARCHAR:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    return field.type.root is Root.DATE and bool(pa.types.is_date32(kind))
