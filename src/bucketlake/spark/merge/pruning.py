"""What of the target a MERGE has to read: columns, and rows that can match.

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from bucketlake.lazy import pc
from bucketlake.ops.rows.among import Among, has_one_form
from bucketlake.predicate.tree import And, Compare, Constant, In, Or, Predicate, conjunction, joined
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.merge.clauses import DELETE, UPDATE, Clause, Merge, Side
from bucketlake.spark.merge.held import Held
from bucketlake.spark.read.hidden import offered
from bucketlake.spark.types import spark_type
from bucketlake.types.model import DataField, DataType, Root, arrow_type

Prune = Callable[[Held], "Predicate | None"]
"""What is known of the rows of the target that matter, given the source; None: nothing."""
MOST_VALUES = 200  # of a key, in a list; of more the ranges are told that they lie in
RANGES = 16
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
    wanted = {*schema.primary_keys, *schema.partition_keys, *kept}
    if merge.named is not None and merge.only:
        wanted |= merge.named.union(item.column for item in merge.equalities)
        return tuple(name for name in schema.field_names if name in wanted)
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
    kinds = {name: field.dataType for name, field in zip(source.alone, source.schema.fields, strict=True) if name}
    pairs = [(schema.field(item.column), item.source) for item in merge.equalities if item.source is not None]
    pairs = [(field, name) for field, name in pairs if name in kinds and _alike(field, kinds[name])]
    names = list(dict.fromkeys(name for _, name in pairs))
    values = source.values(names)
    ends = source.ends([name for name in names if name not in values])
    parts = [known]
    for item, name in pairs:
        if name in values:
            parts.append(_of_values(item, values[name]))
        elif name in ends:
            parts.append(_of_ends(item, ends[name]))
    return conjunction(parts)


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
        own = kinds.get(item.source, []) if item.source is not None else []
        if item.source is not None and len(own) == 1 and equals_alike(kind, own[0]):
            beside.setdefault(item.column, item.source)
    if not beside:
        return None
    fields = [item for item in schema.fields if item.name in beside]
    columns = [as_column(item.type, source.data.column(beside[item.name])) for item in fields]
    return Among.of(fields, pa.Table.from_arrays(columns, names=[item.name for item in fields]))


def equals_alike(kind: DataType, given: T.DataType) -> bool:
    """Whether a value of the source's type equals at most one of the table's, and the same to Spark and here: whole
    numbers of any size do."""
    same = given == spark_type(kind) or (kind.root in _INTEGERS and isinstance(given, T.IntegralType))
    return same and has_one_form(kind)


def as_column(kind: DataType, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a type that `equals_alike` as those of the table's that they equal, null where it holds none such."""
    if kind.root not in _INTEGERS or values.type == arrow_type(kind):
        return values
    most = (1 << (arrow_type(kind).bit_width - 1)) - 1
    wide = values.cast(pa.int64())
    held = pc.and_(pc.less_equal(wide, most), pc.greater_equal(wide, -most - 1))
    return pc.if_else(held, wide, pa.scalar(None, pa.int64())).cast(arrow_type(kind))


def _of_values(field: DataField, values: pa.ChunkedArray) -> Predicate | None:
    """What the source's values say of a column that must equal one of them."""
    found = _held_by(field, values.drop_null()).unique()
    if not len(found):
        return Constant(False)
    try:
        if len(found) <= MOST_VALUES:
            return In(field.name, tuple(found.to_pylist()))
        return joined(Or, [_between(field, *ends) for ends in _ranges(found)])
    except OverflowError:  # a date that Python lacks, as literals of conditions are
        return None


def _of_ends(field: DataField, ends: pa.ChunkedArray) -> Predicate | None:
    """The same, where but the least and the most value are known."""
    if ends.null_count:
        return Constant(False)
    if len(_held_by(field, ends)) < len(ends):
        return None
    try:
        return _between(field, *ends)
    except OverflowError:
        return None


def _between(field: DataField, least: pa.Scalar, most: pa.Scalar) -> Predicate:
    return And((Compare(field.name, ">=", least.as_py()), Compare(field.name, "<=", most.as_py())))


def _ranges(values: pa.Array) -> Iterator[tuple[pa.Scalar, pa.Scalar]]:
    """The least and most of a few runs of values, cut at the widest gaps, where these are most of what lies between
    the ends; else of all. Of texts nobody knows how far they are apart."""
    values = values.take(pc.sort_indices(values))
    cuts = np.empty(0, np.int64)
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        numbers = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
        gaps = np.diff(numbers.to_numpy().astype(np.float64))
        cuts = np.sort(np.argsort(gaps)[1 - RANGES :])
        if 2 * gaps[cuts].sum() < gaps.sum():
            cuts = cuts[:0]
    for first, last in zip([0, *(cuts + 1)], [*cuts, len(values) - 1], strict=True):
        yield values[int(first)], values[int(last)]


def _held_by(field: DataField, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values that a column can hold: integers of the source may be wider, and equal none of the column's then."""
    return as_column(field.type, values).drop_null()


def _alike(field: DataField, kind: T.DataType) -> bool:
    """Whether values compare in Spark as they do here."""
    if field.type.root in _INTEGERS:
        return isinstance(kind, T.IntegralType)
    return (field.type.root is Root.VARCHAR and kind == T.StringType()) or (
        field.type.root is Root.DATE and kind == T.DateType()
    )
