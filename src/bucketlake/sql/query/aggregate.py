"""Counts, least and greatest values answered from metadata, where the whole statement is proved to ask for no more.

The table gives way to a few rows: a partition's values with the number of its rows, and its bounds of the columns
whose MIN or MAX is wanted. `count(*)` becomes the sum of these numbers; Spark evaluates all else as it is written.

Spec: docs/spec/pushdown.md#aggregates
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import decode_stats_columns
from bucketlake.lazy import pc
from bucketlake.ops.rows.column_files import narrowed
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.spark.arrow_rows import arrow_frame, arrow_layout, spark_batch
from bucketlake.spark.types import spark_schema
from bucketlake.sql.query.parser import Source, only
from bucketlake.sql.query.pushdown import Proof, counts_rows
from bucketlake.sql.text.tokens import tokenize
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bucketlake.ops.scan.scan import Plan
    from bucketlake.ops.table.messages import Split
    from bucketlake.ops.table.store import Store

ROWS = "__bucketlake_rows"  # the column that counts
_SUM = f"coalesce(sum(`{ROWS}`), 0L)"
# Types whose bounds in statistics are values that the files have: neither cut, nor silent about NaN.
_EXACT = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.DECIMAL, Root.TIMESTAMP}
_PLAIN = _EXACT | {Root.BOOLEAN, Root.VARCHAR}
_MICROSECONDS = 6
_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit"}
# What an expression may be made of: nothing that could tell how many rows there are.
_KNOWN = (
    *(exp.Alias, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Neg, exp.Not),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.And, exp.Or, exp.In, exp.Between, exp.Is, exp.Ordered, exp.Limit),
    *(exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Where, exp.Group, exp.Having, exp.Order),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement that metadata may answer. `fields`: the columns it names, in the table's order; `bounded`: those of
    them whose MIN or MAX is asked; `pieces`: what is spliced into its text; `whole`: nothing but the number of all rows
    is asked, which then is no aggregate any more, and needs no job."""

    fields: tuple[DataField, ...]
    bounded: tuple[str, ...]
    pieces: tuple[tuple[int, int, str], ...]
    whole: bool = False


def may_ask(proof: Proof) -> bool:
    """Whether a statement has the form, before its table is looked at."""
    select = proof.tree
    if type(select) is not exp.Select or any(value and key not in _CLAUSES for key, value in select.args.items()):
        return False
    return any(item.find(exp.Count, exp.Min, exp.Max) is not None for item in select.expressions)


def asked(proof: Proof, source: Source, partition_keys: Sequence[str]) -> Asked | None:
    """What a statement asks of one table, if it is one SELECT of aggregates, of nothing but that table."""
    select = proof.tree
    if not may_ask(proof) or not isinstance(select, exp.Select):
        return None
    if any(item.name == ROWS for item in source.fields) or not _is_from(select, source):
        return None
    group = select.args.get("group")
    if group is not None and any(value and key != "expressions" for key, value in group.args.items()):
        return None
    reading = _Reading(proof, source, frozenset(partition_keys))
    parts = [*select.expressions, *(select.args.get(key) for key in ("where", "group", "having", "order", "limit"))]
    if not all(reading.known(part) for part in parts if part is not None):
        return None
    if group is None and reading.bare(select):
        return None
    fields = tuple(item for item in source.fields if item.name in reading.columns)
    whole = not fields and not any(select.args.get(key) for key in ("where", "group", "having", "order"))
    whole = whole and all(item.find(exp.Count) is not None for item in select.expressions)
    pieces = _pieces(proof.text, select, f"`{ROWS}`" if whole else _SUM)
    return None if pieces is None else Asked(fields, tuple(sorted(reading.bounded)), pieces, whole)


def _is_from(select: exp.Select, source: Source) -> bool:
    found = select.args.get("from_")
    if not isinstance(found, exp.From) or found.this is not source.node or select.args.get("joins"):
        return False
    node = source.node
    alias = node.args.get("alias") if node is not None else None
    known = {"this", "db", "catalog", "alias"}
    plain = node is not None and all(key in known for key, value in node.args.items() if value)
    return plain and (alias is None or not alias.args.get("columns"))


class _Reading:
    """Reads a SELECT's parts: which columns they name, and that they are made of what is known."""

    def __init__(self, proof: Proof, source: Source, partition_keys: frozenset[str]) -> None:
        self.columns: set[str] = set()
        self.bounded: set[str] = set()
        self._source, self._keys = source, partition_keys
        self._sensitive = proof.settings.case_sensitive
        select = proof.tree
        self._aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}

    def known(self, node: exp.Expr) -> bool:
        """Whether a part is understood to its leaves, however deep it is."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            found = self._leaf(part)
            if found is None:
                waiting.extend(part.iter_expressions())
            elif not found:
                return False
        return True

    def _leaf(self, node: exp.Expr) -> bool | None:
        """Whether one node is understood, None where that is up to those below it."""
        if isinstance(node, exp.Count):
            return _is_count_of_rows(node)
        if type(node) in (exp.Min, exp.Max):
            inner = node.this
            return not node.expressions and type(inner) is exp.Column and self._column(inner, bounded=True)
        if type(node) is exp.Column:
            return self._column(node, bounded=False)
        if type(node) not in _KNOWN or (type(node) is exp.In and any(node.args.get(k) for k in ("query", "unnest"))):
            return False
        return None

    def bare(self, select: exp.Select) -> bool:
        """Whether a column of the list stands outside of aggregates: without GROUP BY that is Spark's error."""
        return any(type(item.unalias()) is exp.Column for item in select.expressions)

    def _column(self, node: exp.Column, bounded: bool) -> bool:
        qualifier = node.args.get("table")
        if node.args.get("db") is not None or type(node.this) is not exp.Identifier:
            return False
        if qualifier is not None and qualifier.name.lower() != self._source.exposed.lower():
            return False
        found = self._field(node.name)
        if found is None:
            return qualifier is None and not bounded and node.name.lower() in self._aliases
        if found.name in self._source.unproved:
            return False
        if found.name in self._keys:
            self.columns.add(found.name)
            return found.type.root in _PLAIN and _holds(found)
        if not bounded or found.type.root not in _EXACT or not _holds(found):
            return False
        self.columns.add(found.name)
        self.bounded.add(found.name)
        return True

    def _field(self, name: str) -> DataField | None:
        if self._sensitive:
            return next((item for item in self._source.fields if item.name == name), None)
        found = [item for item in self._source.fields if item.name.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


def _holds(item: DataField) -> bool:
    """Whether Spark and statistics hold the type's values alike."""
    return item.type.root is not Root.TIMESTAMP or (item.type.precision or 0) <= _MICROSECONDS


def _is_count_of_rows(node: exp.Count) -> bool:
    inner = node.this
    one = type(inner) is exp.Literal and not inner.is_string and inner.name == "1"
    return counts_rows(node) or (one and only(node, {"this", "big_int"}))


def _pieces(statement: str, select: exp.Select, number: str) -> tuple[tuple[int, int, str], ...] | None:
    """The counts' places in the text; None where an item of the list would lose the name that Spark gives it."""
    tokens = tokenize(statement)
    found = []
    for at in range(len(tokens) - 3):
        word, opens, what, closes = tokens[at : at + 4]
        counts = what.value in ("*", "1") and what.kind in ("sign", "number")
        if word.is_word("COUNT") and opens.value == "(" and counts and closes.value == ")":
            found.append((word.start, closes.end))
    if len(found) != sum(1 for _ in select.find_all(exp.Count)):
        return None
    own = [item for item in select.expressions if not isinstance(item, exp.Alias) and item.find(exp.Count) is not None]
    if any(type(item) is not exp.Count for item in own):
        return None
    named = _unaliased(select)
    return tuple(
        (start, end, number + (" AS `count(1)`" if place in named else "")) for place, (start, end) in enumerate(found)
    )


def _unaliased(select: exp.Select) -> set[int]:
    """Which counts, by their order in the text, are items of the list without a name."""
    places, at = set(), 0
    for item in select.expressions:
        inside = sum(1 for _ in item.find_all(exp.Count))
        if type(item) is exp.Count:
            places.add(at)
        at += inside
    return places


# ---------------------------------------------------------------------------------------------- from metadata


def reduced(spark: SparkSession, store: Store, plan: Plan, wanted: Asked) -> DataFrame | None:
    """The few rows that stand for the table's; None where metadata does not say it exactly."""
    splits = [part for split in plan.splits for part in narrowed(store, split, [item.name for item in wanted.fields])]
    files = None if plan.beside else _exact_files(store, splits, bool(wanted.bounded))
    if files is None:
        return None
    counts: dict[bytes, int] = {}
    for partition, _, rows in files:
        counts[partition] = counts.get(partition, 0) + rows
    if wanted.whole:
        total = pa.table({ROWS: pa.array([sum(counts.values())], pa.int64())})
        return arrow_frame(spark, total, spark_schema(()).add(ROWS, "long"))
    counts = {partition: rows for partition, rows in counts.items() if rows}
    partitions = list(counts)
    bounds = _bounds(store, [(p, file) for p, file, _ in files], partitions, wanted.bounded)
    if bounds is None:
        return None
    return _frame(spark, store, wanted, counts, bounds)


def _exact_files(store: Store, splits: Sequence[Split], bounded: bool) -> list[tuple[bytes, DataFile, int]] | None:
    """Each file with its partition and the rows it has; None where rows are merged, or deleted in unknown number."""
    keyed = bool(store.schema.primary_keys)
    found = []
    for split in splits:
        if not split.raw or split.before is not None or split.changes or split.parts or split.bucket < 0:
            return None
        for file in split.files:
            if (keyed and file.delete_row_count != 0) or not file.row_count:  # nobody writes a file without rows
                return None
            deletions = split.deletions.get(file.file_name)
            gone = 0 if deletions is None else deletions.range.cardinality
            if gone is None or (gone and bounded):
                return None
            found.append((split.partition, file, file.row_count - gone))
    return found


Bounds = dict[str, tuple[pa.Array, pa.Array]]


def _bounds(
    store: Store, files: Sequence[tuple[bytes, DataFile]], partitions: Sequence[bytes], names: Sequence[str]
) -> Bounds | None:
    """The least and greatest value of each column by partition; None where statistics do not tell."""
    places = {partition: place for place, partition in enumerate(partitions)}
    result: Bounds = {}
    for name in names:
        parts = []
        for group in _groups(files):
            part = _group_bounds(store, group, store.schema.field(name), places)
            if part is None:
                return None
            parts.append(part)
        if not parts:
            continue
        table = pa.concat_tables(parts).group_by("p").aggregate([("low", "min"), ("high", "max")])
        order = pc.index_in(pa.array(range(len(partitions)), pa.int64()), table["p"].combine_chunks())
        result[name] = (table["low_min"].combine_chunks().take(order), table["high_max"].combine_chunks().take(order))
    return result


def _groups(files: Sequence[tuple[bytes, DataFile]]) -> Iterator[list[tuple[bytes, DataFile]]]:
    """Files whose statistics have the same columns."""
    found: dict[tuple[int, tuple[str, ...] | None], list[tuple[bytes, DataFile]]] = {}
    for partition, file in files:
        if file.row_count:
            found.setdefault((file.schema_id, file.stats_columns), []).append((partition, file))
    yield from found.values()


def _group_bounds(
    store: Store, group: list[tuple[bytes, DataFile]], wanted: DataField, places: dict[bytes, int]
) -> pa.Table | None:
    first = group[0][1]
    schema = store.schema_of(first.schema_id)
    fields = schema.stats_fields(first.stats_columns)
    rows = pa.array([file.row_count for _, file in group], pa.int64())
    partition = pa.array([places[one] for one, _ in group], pa.int64())
    at = next((place for place, item in enumerate(fields) if item.id == wanted.id), None)
    if at is None or fields[at].type.with_nullable(True) != wanted.type.with_nullable(True):
        return None
    stats = [file.value_stats for _, file in group]
    if any(int.from_bytes(row[:4], "big") != len(fields) for s in stats for row in (s.min_values, s.max_values)):
        return None
    column = decode_stats_columns(stats, [item.type for item in fields], [at])[0]
    unknown = pc.or_(column.mins.is_null(), column.maxs.is_null())
    all_null = pc.fill_null(pc.equal(column.null_counts, rows), False)
    if pc.any(pc.and_(unknown, pc.invert(all_null))).as_py():
        return None
    return pa.table({"p": partition, "low": column.mins, "high": column.maxs})


def _frame(spark: SparkSession, store: Store, wanted: Asked, counts: dict[bytes, int], bounds: Bounds) -> DataFrame:
    """A row a partition with its count and least values, and where there are bounds another with the greatest."""
    schema = spark_schema(wanted.fields).add(ROWS, "long")
    partitions = list(counts)
    if not partitions:
        return spark.createDataFrame([], schema)
    known = dict(zip(store.schema.partition_keys, partition_columns(store, partitions), strict=True))
    layout = arrow_layout(wanted.fields)
    rows = []
    for side in (0, 1) if wanted.bounded else (0,):
        columns = [bounds[f.name][side] if f.name in bounds else known[f.name] for f in wanted.fields]
        made = pa.RecordBatch.from_arrays(columns, names=[f.name for f in wanted.fields])
        batch = spark_batch(made, wanted.fields) if wanted.fields else made
        number = pa.array([0 if side else counts[one] for one in partitions], pa.int64())
        rows.append(pa.Table.from_arrays([*batch.columns, number], schema=layout.append(pa.field(ROWS, pa.int64()))))
    return arrow_frame(spark, pa.concat_tables(rows), schema)
