"""DELETE and UPDATE through Spark: which rows, by any condition that Spark can evaluate, and what is written for them.

Primary-key tables: the rows found are written again as deletes (-D) or with their new values (+U), by the same path as
any write. A row that moves to another partition leaves a delete in its old one, in the same commit.
Append tables: Spark says where the rows lie, `ops.change.append_rows` marks them or has their files rewritten.

Spec: docs/spec/row_changes.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.format.index.deletion_vector import Vector
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pc
from bucketlake.ops.change import append_rows as files
from bucketlake.ops.change.column_updates import named_columns
from bucketlake.ops.change.new_values import in_place
from bucketlake.ops.change.row_changes import (
    deletes_by_rewrite,
    refuse_delete,
    refuse_merging,
    refuse_update,
    required,
)
from bucketlake.ops.change.touched import Touched, path_of
from bucketlake.ops.clean.expire import after_change
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.rows.among import Among, has_one_form
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import Plan, Scan, plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.known import check_known
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store
from bucketlake.predicate.scan import Words
from bucketlake.predicate.tree import Constant, Predicate, is_exact, to_spark_sql
from bucketlake.schema.schema import (
    KIND_FIELD,
    ROW_ID_FIELD,
    SEQUENCE_FIELD,
    TRACKING_FIELDS,
    BucketMode,
    TableSchema,
)
from bucketlake.spark import actions, instants
from bucketlake.spark.arrow_rows import collected, spark_table, spread
from bucketlake.spark.assignment import is_final
from bucketlake.spark.beside import NOTHING, Beside
from bucketlake.spark.cluster import parallelism
from bucketlake.spark.column_text import condition_text, expression_of, value_given
from bucketlake.spark.conform import chars_are_text, conform, require_assignable, require_one_row, same_key
from bucketlake.spark.maintain.compaction import after_no_change
from bucketlake.spark.read import among, reader
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.read.row_places import Choose, finder, hits, rows_with_places, stored_with_places
from bucketlake.spark.read.row_places import is_small as is_few
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.spark.write import writer
from bucketlake.spark.write.append_changes import rewriter, write_rows
from bucketlake.spark.write.column_updates import MINE, ColumnChange
from bucketlake.spark.write.kept import decided
from bucketlake.spark.write.new_values import Found, replacer
from bucketlake.types.model import Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

_FILE_NAME = re.compile(r"(?i)\binput_file_name\s*\(")
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
PLACE = "__bucketlake_place"  # of a row among those that Spark is asked about
OLD = "__bucketlake_old_"  # before a column's name: its value before the update
DELETE, UPDATE_AFTER = 3, 2
Read = Callable[[], DataFrame]
"""Rows of the table as of now, each time anew."""


def delete(spark: SparkSession, table: Table, where: str | Predicate | None) -> Snapshot | None:
    """Delete the matching rows as of now; None where there are none. The condition "true" stands for all of them.

    Errors: InvalidError (condition, none given), UnsupportedError (merge engine), and those of a write.
    """
    table, where = table.for_changing(rows=True), required(where)
    _refuse_file_names(where)
    predicate = reader.predicate_of(spark, table, where)
    assert predicate is not None
    done, snapshot = _without_spark(table, predicate)
    if done:
        return snapshot
    if not table.schema.primary_keys or deletes_by_rewrite(table.schema):
        if table.schema.data_evolution:
            text = to_spark_sql(where) if isinstance(where, Predicate) else where
            return ColumnChange(spark, table, predicate, (text,)).delete(lambda frame: frame.where(text).select(MINE))
        return delete_places(spark, table, predicate, _chooser(where), _beside(table.schema, where))
    text = to_spark_sql(where) if isinstance(where, Predicate) else where
    keys = Keys(lambda names: reader.read(spark, table, names, where), predicate, (text,))
    return delete_rows(spark, table, lambda: reader.read(spark, table, where=where), keys)


def _refuse_file_names(*texts: object) -> None:
    """UnsupportedError where Spark is to say which file a row is in: it knows that of rows which its own scan reads."""
    if any(isinstance(text, str) and _FILE_NAME.search(_LITERAL.sub("''", text)) for text in texts):
        raise UnsupportedError(
            "input_file_name() where rows that come from no file of Spark's are changed",
            remedy="find the rows by their columns, or, of an append table, by SQL",
        )


def delete_known(table: Table, predicate: Predicate) -> bool:
    """Delete what needs no Spark: everything, whole partitions, few rows by an exact predicate. False: nothing was
    done, Spark has to find the rows."""
    return _without_spark(table.for_changing(rows=True), predicate)[0]


def update_known(table: Table, predicate: Predicate, values: Mapping[str, Any]) -> bool:
    """Set columns of few rows to constants, which needs no Spark: Arrow scalars or Python values by column. False:
    nothing was done, Spark has to find the rows. Rows with ids of their own, and those that may move, are Spark's."""
    table = table.for_changing(rows=True)
    schema = table.schema
    moving = bool(schema.primary_keys) and any(name in schema.partition_keys for name in values)
    if schema.tracks_rows or moving or not is_small(table, predicate):
        return False
    table.update(values, predicate)
    return True


def _without_spark(table: Table, predicate: Predicate) -> tuple[bool, Snapshot | None]:
    done, snapshot = files.deleted_unseen(table.store, predicate)
    if done:
        return True, after_change(table.store, snapshot)
    if deletes_by_rewrite(table.schema) or not is_small(table, predicate):
        return False, None
    refuse_delete(table.schema)
    return True, table.delete(predicate)


def _chooser(where: str | Predicate | None) -> Choose:
    """The places of the rows that a condition over the table's columns finds."""
    text = to_spark_sql(where) if isinstance(where, Predicate) else where
    return lambda frame: (frame if text is None else frame.where(text)).select(FILE, ROW_INDEX)


def _beside(schema: TableSchema, where: str | Predicate | None, *values: object) -> Beside:
    """What a condition and new values look at: columns of the rows alone."""
    text = to_spark_sql(where) if isinstance(where, Predicate) else where or ""
    return Beside(columns=frozenset(named_columns(schema, (text, *values))))


def is_small(table: Table, predicate: Predicate) -> bool:
    """Whether the driver finds the rows by itself sooner than Spark would start."""
    if not is_exact(predicate):
        return False
    found = plan(table.store, Scan(predicate))
    return found.row_count <= reader.SMALL_ROWS and found.size <= reader.SMALL_BYTES


def delete_places(
    spark: SparkSession,
    table: Table,
    prune: Predicate,
    choose: Choose,
    beside: Beside = NOTHING,
) -> Snapshot | None:
    """Delete the rows of an append table that `choose` finds, or of a primary-key table by rewriting its files.
    `prune`: what is known of them, to leave out files; `beside`: what `choose` looks at."""
    find = _settled(finder(spark, choose, beside), beside)

    def unmerged(store: Store, splits: Sequence[Split], base: Snapshot | None) -> Mapping[str, Vector]:
        refuse_merging(store, base, splits)
        return find(store, splits, base)

    found = unmerged if table.schema.primary_keys else find
    means = files.Means(found, rewrite=rewriter(spark), anew=beside.subqueries, width=parallelism(spark))
    return after_change(table.store, files.change_rows(table.store, prune, means, "DELETE"))


def _settled(find: files.Find, beside: Beside) -> files.Find:
    def found(store: Store, splits: Sequence[Split], base: Snapshot | None) -> Mapping[str, Vector]:
        positions = find(store, splits, base)
        beside.check(store, base)
        return positions

    return found


def refuse_unlike(spark: SparkSession, table: Table, base: Snapshot | None, prune: Predicate | None = None) -> None:
    """UnsupportedError where rows of a primary-key table that a change may find are written otherwise than they are
    stored: CHAR keys that are not padded come padded, which are other keys, and the rows are left as they are."""
    schema = table.schema
    if base is not None:
        selection = Selection(base)
        instants.refuse_skipped(
            spark, schema, lambda: reader.rows_of(spark, table.store, table.planned(prune, selection))
        )
    identity = dict.fromkeys((*schema.primary_keys, *schema.partition_keys))
    names = tuple(name for name in identity if schema.field(name).type.root is Root.CHAR)
    if base is None or not names or chars_are_text(spark):
        return
    if reader.has_short_texts(spark, table, Selection(base), reader.Need(names, prune)):
        raise UnsupportedError(
            "rows whose CHAR keys are stored without padding, as engines but Spark do: SQL would write padded keys, "
            "which are others",
            table=table.name,
            columns=list(names),
            remedy="SET spark.sql.legacy.charVarcharAsString = true, which takes CHAR for what is stored",
        )


MOST_STORED = 4 * among.MOST_ROWS  # stored rows whose keys are looked up: of some keys there are several


@dataclass(frozen=True, slots=True)
class NewValues:
    """What an update sets: the columns `names`, to what the `texts` say over a row. `of_rows`: the columns `names`, and
    `PLACE`, of each of these rows, which have the columns that the texts name, and `PLACE`."""

    names: Sequence[str]
    texts: Sequence[object]
    of_rows: Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Keys:
    """How to read some columns of the rows wanted. `prune`: what is known of them; `texts`: what the condition says;
    `of_rows`: of these rows, where it says the same of all that have the same key."""

    read: Callable[[Sequence[str]], DataFrame]
    prune: Predicate
    texts: tuple[str, ...]
    of_rows: Callable[[Sequence[str], DataFrame], DataFrame] | None = None


def delete_rows(spark: SparkSession, table: Table, read: Read, keys: Keys) -> Snapshot | None:
    """Delete the rows that `read` finds in the table as of now, of a primary-key table; where they are few, by their
    keys, so that other columns are read only where such rows are."""
    refuse_delete(table.schema)

    def write(base: Snapshot) -> Snapshot | None:
        refuse_unlike(spark, table, base, keys.prune)
        rows = _under_keys(spark, table, keys, base)
        if rows is None:
            return _write(spark, table, _of_kind(read(), table.schema, DELETE), "DELETE", base)
        return _write_here(spark, table, rows, DELETE, "DELETE", base) if rows.num_rows else None

    return _until_done(spark, table, write)


def _under_keys(spark: SparkSession, table: Table, keys: Keys, base: Snapshot) -> pa.Table | None:
    """The rows of a snapshot under the keys that are found now, whole; None where these are many or hard to tell
    apart, or looking for them would read most columns. A row that others changed in between is a conflict of the
    commit, as any is that they changed since the snapshot."""
    schema = table.schema
    names = schema.primary_keys
    if not all(has_one_form(schema.field(name).type) for name in names):
        return None
    if not set(schema.partition_keys) <= set(names):
        return None  # a key may be in several partitions
    asked = names if keys.of_rows is not None else {*names, *named_columns(schema, keys.texts)}
    if len(asked) * 2 > len(schema.fields):
        return None
    plan = table.planned(keys.prune, Selection(base))
    if plan.row_count <= reader.SMALL_ROWS and plan.size <= reader.SMALL_BYTES:
        return None
    values = _keys_found(spark, table, keys, plan)
    return None if values is None else among.of_keys(spark, table.store, plan, values, schema.field_names)


def _keys_found(spark: SparkSession, table: Table, keys: Keys, plan: Plan) -> pa.RecordBatch | None:
    """Keys among which those of all rows wanted are, once each; None where they are many. A condition that is about the
    key alone is put to stored rows, so that nobody has to find out first which of them live."""
    names = table.schema.primary_keys
    fields = table.schema.select(names)
    stored = None if keys.of_rows is None else reader.stored_rows(spark, table, plan, names)
    if stored is not None and keys.of_rows is not None:
        with suppress(PySparkException):  # perhaps of a row that lives no more
            found = actions.to_arrow(keys.of_rows(names, stored).limit(MOST_STORED + 1))
            if found.num_rows <= MOST_STORED:
                values = Among.of(fields, found).values
                return values if values.num_rows <= among.MOST_ROWS else None
    found = actions.to_arrow(keys.read(names).limit(among.MOST_ROWS + 1))
    return Among.of(fields, found).values if found.num_rows <= among.MOST_ROWS else None


def update(
    spark: SparkSession, table: Table, assignments: Mapping[str, Any], where: str | Predicate | Column | None
) -> Snapshot | None:
    """Set columns of the matching rows. `assignments`: column → SQL expression or Column over the old row, or a
    constant that is no text.

    Errors: InvalidError (columns, primary key, values), UnsupportedError (merge engine), and those of a write.
    """
    table = table.for_changing(rows=True)
    schema = table.schema
    columns = assigned_columns(schema, assignments)
    where = condition_text(where)
    _refuse_file_names(where, *columns.values())
    refuse_update(schema, columns)
    values = {
        name: expression_of(_paired(value)) if isinstance(value, str) else value for name, value in columns.items()
    }
    _check(spark, table, columns, values)
    chosen = [values[name].alias(name) if name in values else quoted(name) for name in schema.field_names]
    chosen += [F.expr(f"{text} AS {quoted(name)}") for name, text in kept_ids(schema, quoted).items()]
    if schema.data_evolution:
        text = to_spark_sql(where) if isinstance(where, Predicate) else where
        new = [values[name].alias(name) for name in columns]

        def changed(frame: DataFrame) -> DataFrame:
            return (frame if text is None else frame.where(text)).select(*new, MINE)

        change = ColumnChange(spark, table, reader.predicate_of(spark, table, where), (text or "", *columns.values()))
        return change.update(changed, list(columns))
    if not schema.primary_keys:
        prune = reader.predicate_of(spark, table, where) or Constant(True)
        places = [F.col(FILE), F.col(ROW_INDEX)]
        some = [values[name].alias(name) for name in columns]

        def project(rows: DataFrame, whole: bool) -> DataFrame:
            return rows.select(*(chosen if whole else some), *places)

        beside = _beside(schema, where, *columns.values())
        return update_places(spark, table, prune, Assigning(tuple(columns), _chooser(where), project, beside))
    keys: Keys | None = None
    if moves(schema, columns):
        chosen += [F.expr(f"{quoted(name)} AS {quoted(OLD + name)}") for name in schema.field_names]
    elif where is not None:
        text = to_spark_sql(where) if isinstance(where, Predicate) else where
        prune = reader.predicate_of(spark, table, where) or Constant(True)
        keys = Keys(lambda names: reader.read(spark, table, names, where), prune, (text,))
    asked = [*(values[name].alias(name) for name in columns), F.col(PLACE)]
    own = NewValues(list(columns), list(columns.values()), lambda rows: rows.select(*asked))
    return update_rows(spark, table, lambda: reader.read(spark, table, where=where).select(*chosen), keys, own)


def _check(spark: SparkSession, table: Table, columns: Mapping[str, Any], values: Mapping[str, Column]) -> None:
    """What is wrong with new values, where perhaps no row gets them."""
    schema = table.schema
    known = [*schema.fields, *(TRACKING_FIELDS if schema.tracks_rows else ())]
    none = spark.createDataFrame([], instants.shown_schema(known, table.options))
    require_one_row(none, [values[name] for name, text in columns.items() if not isinstance(text, str) or "(" in text])
    seen = none.select(*[value.alias(name) for name, value in values.items()]).schema
    fields = [item for item in schema.fields if item.name in values]
    require_assignable(seen, fields, instants.rules(spark, table.options))


def kept_ids(schema: TableSchema, column: Callable[[str], str]) -> dict[str, str]:
    """What an update writes besides the columns of a table whose rows have ids, as SQL texts: a row keeps its id, and
    the commit gives it its number. `column`: the text of a column."""
    if not schema.tracks_rows:
        return {}
    return {ROW_ID_FIELD.name: column(ROW_ID_FIELD.name), SEQUENCE_FIELD.name: "CAST(NULL AS BIGINT)"}


def assigned_columns(schema: TableSchema, assignments: Mapping[str, Any]) -> dict[str, Any]:
    """The assignments by the table's own column names, matched without case; InvalidError for others."""
    if not isinstance(assignments, Mapping):
        given = type(assignments).__name__
        raise InvalidError(
            "an update takes column → expression", given=given, remedy="update({'a': 'a + 1'}, \"b = 1\")"
        )
    known = {name.lower(): name for name in schema.field_names}
    found: dict[str, Any] = {}
    for name, value in assignments.items():
        own = known.get(name.lower())
        if own is None:
            names = list(schema.field_names)
            raise InvalidError("no such column", column=name, columns=names, remedy=did_you_mean(name, names))
        if own in found:
            raise InvalidError(f"Conflicting assignments for '{own}'", remedy="assign each column once")
        found[own] = value_given(value, column=own)
    if not found:
        raise InvalidError("an update that sets nothing", remedy="give column → expression")
    return found


def _paired(text: str) -> str:
    """The text of a value; InvalidError where its brackets do not pair, so that it is not one operand in brackets."""
    try:
        Words(text)
    except InvalidError as error:
        raise InvalidError("cannot parse the value", value=text, reason=error.details.get("reason")) from error
    return text


def moves(schema: TableSchema, columns: Mapping[str, Any] | Sequence[str]) -> bool:
    """Whether an update of these columns can move rows of a primary-key table to other partitions, and nobody but the
    update deletes them from the old ones."""
    if not schema.primary_keys or schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return False
    return any(name in schema.partition_keys for name in columns)


@dataclass(frozen=True, slots=True)
class Assigning:
    """What an UPDATE of an append table does: `choose` finds rows, `project` gives them, with their places, new values
    in the columns `names`, and whole where it is asked for them (True). `beside`: what these look at."""

    names: Sequence[str]
    choose: Choose
    project: Callable[[DataFrame, bool], DataFrame]
    beside: Beside = NOTHING


def update_places(spark: SparkSession, table: Table, prune: Predicate, assigning: Assigning) -> Snapshot | None:
    """Give rows of an append table new values: where they are, if these columns allow it, else as new rows, with
    `kept_ids`."""
    beside, project = assigning.beside, assigning.project
    stay = in_place(table.schema, assigning.names)

    def new(store: Store, touched: Sequence[Touched], whole: bool) -> tuple[DataFrame, bool]:
        found = hits(touched)
        instants.refuse_skipped(spark, store.schema, lambda: stored_with_places(spark, store, found))
        columns = None if whole or beside.columns is None else beside.columns.union(assigning.names)
        return project(rows_with_places(spark, store, found, beside.extra, columns), whole), is_few(found)

    def write(store: Store, snapshot: Snapshot | None, touched: Sequence[Touched]) -> Iterator[CommitMessage]:
        if touched and not stay:
            store = tracked(store)
            frame, few = new(store, touched, whole=True)
            yield from write_rows(spark, store, snapshot, frame.drop(FILE, ROW_INDEX), few)
        if touched:
            beside.check(store, snapshot)

    def values(store: Store, touched: Sequence[Touched]) -> Found:
        frame, few = new(store, touched, whole=False)
        numbers = {path_of(store, item.split, item.file): at for at, item in enumerate(touched)}
        return Found(numbers, lambda: frame, few)

    find = _settled(finder(spark, assigning.choose, beside), beside)
    names = set(assigning.names) if stay else set()
    replaced = [item for item in table.schema.fields if item.name in names]
    rewrite = replacer(spark, replaced, values) if stay else rewriter(spark)
    means = files.Means(find, write, rewrite, beside.subqueries, parallelism(spark))
    means = replace(means, replaces=tuple(item.name for item in replaced))
    return after_change(table.store, files.change_rows(table.store, prune, means, "UPDATE"))


def update_rows(
    spark: SparkSession, table: Table, read: Read, keys: Keys | None = None, new: NewValues | None = None
) -> Snapshot | None:
    """Write the rows of a primary-key table that `read` finds as of now, with their new values; where they may move, it
    gives every column's old value as well. Few rows are found by their keys, as those of a DELETE, and Spark is asked
    for the `new` values alone."""

    def write(base: Snapshot) -> Snapshot | None:
        refuse_unlike(spark, table, base)
        rows = None if keys is None or new is None else _updated(spark, table, keys, new, base)
        if rows is None:
            return _update_once(spark, table, read(), base)
        return _write_here(spark, table, rows, UPDATE_AFTER, "UPDATE", base) if rows.num_rows else None

    return _until_done(spark, table, write)


def _updated(spark: SparkSession, table: Table, keys: Keys, new: NewValues, base: Snapshot) -> pa.Table | None:
    """The rows under the keys that are found now, with their new values; None as of `_under_keys`, where Spark would be
    told other values than it reads, and where it finds fault with what is set."""
    schema = table.schema
    if not is_final(schema.fields) or instants.tells_otherwise(schema):
        return None
    rows = _under_keys(spark, table, keys, base)
    if rows is None or not rows.num_rows:
        return rows
    rows, named = spark_table(rows, schema.fields), named_columns(schema, new.texts)
    seen = [item for item in schema.fields if item.name in named]
    own = rows.select([item.name for item in seen]).append_column(PLACE, pa.array(np.arange(rows.num_rows)))
    rules = instants.rules(spark, table.options)
    with suppress(AnalysisException):
        frame = new.of_rows(spread(spark, own, spark_schema(seen).add(PLACE, T.LongType())))
        found = collected(conform(frame, schema.select(new.names), [PLACE], rules))
        found = found.take(pc.sort_indices(found.column(PLACE)))
        if not found.column(PLACE).equals(own.column(PLACE)):
            return None  # what is set makes several rows of one
        for name in new.names:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.field(at), found.column(name).cast(rows.field(at).type))
        return rows
    return None


def _update_once(spark: SparkSession, table: Table, frame: DataFrame, base: Snapshot) -> Snapshot | None:
    schema = table.schema
    if OLD + schema.field_names[0] not in frame.columns:
        return _write(spark, table, _of_kind(frame, schema, UPDATE_AFTER), "UPDATE", base)
    # Read twice: the rows that arrive and those that leave must be the same, whatever executor is lost.
    frame = decided(frame)
    rows = _of_kind(frame, schema, UPDATE_AFTER).union(left_behind(frame, schema, frame))
    return _write(spark, table, rows, "UPDATE", base)


def _until_done(spark: SparkSession, table: Table, write: Callable[[Snapshot], Snapshot | None]) -> Snapshot | None:
    """Read, change and commit rows; again where others changed them meanwhile, a bounded number of times. `write` is
    told a snapshot that was the newest before it reads."""

    def once(attempt: Attempt) -> Snapshot | None:
        base = attempt.on(table.store.latest_snapshot())
        check_known(table.store, base)
        return None if base is None else write(base)

    return Attempts(table.store).run(once) or after_no_change(spark, table.store)


def left_behind(frame: DataFrame, schema: TableSchema, arriving: DataFrame) -> DataFrame:
    """Deletes in the partitions that rows leave, but for keys to which another row of the change comes."""
    names = schema.field_names
    stays = [
        same_key(schema.field(key).type, F.col(quoted(key)), F.col(quoted(OLD + key))) for key in schema.partition_keys
    ]
    gone = frame.where(~_all(stays)).selectExpr(*[f"{quoted(OLD + name)} AS {quoted(name)}" for name in names])
    keys = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    return _of_kind(without_keys(gone, arriving, schema, keys), schema, DELETE)


def without_keys(frame: DataFrame, others: DataFrame, schema: TableSchema, keys: Sequence[str]) -> DataFrame:
    """The rows under whose keys no row of the others is."""
    other = others.select(*[F.col(quoted(key)).alias(f"{OLD}{place}") for place, key in enumerate(keys)])
    same = [
        same_key(schema.field(key).type, F.col(quoted(key)), F.col(f"{OLD}{place}")) for place, key in enumerate(keys)
    ]
    return frame.join(other, _all(same), "left_anti")


def _all(parts: Sequence[Column]) -> Column:
    return reduce(lambda left, right: left & right, parts)


def _of_kind(frame: DataFrame, schema: TableSchema, kind: int) -> DataFrame:
    # A column that is named alone costs PySpark some ten calls of Java.
    if frame.columns != list(schema.field_names):
        frame = frame.select(*[F.col(quoted(name)) for name in schema.field_names])
    return frame.withColumn(KIND_FIELD.name, F.lit(kind).cast("tinyint"))


def _write_here(
    spark: SparkSession, table: Table, rows: pa.Table, kind: int, operation: str, base: Snapshot
) -> Snapshot | None:
    rows = rows.append_column(KIND_FIELD.name, pa.repeat(pa.scalar(kind, pa.int8()), rows.num_rows))
    request = writer.WriteRequest(kinds=KIND_FIELD.name, operation=operation, read=base, local=True)
    return writer.write(spark, table, rows, request)


def _write(spark: SparkSession, table: Table, rows: DataFrame, operation: str, base: Snapshot) -> Snapshot | None:
    request = writer.WriteRequest(kinds=KIND_FIELD.name, operation=operation, read=base)
    return writer.write(spark, table, rows, request)
