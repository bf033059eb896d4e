"""MERGE into a primary-key table: rows that it changes are written as any rows are, with their row kinds.

An upsert reads nothing of the table: every row of the source is written under its key, whether or not the table has it.
That is what the statement means where the condition is the equality of the whole key, both clauses write whole rows of
the same values, the table keeps the last row of a key, no two rows of the source have one key, and keys that are equal
to Spark are the same to the table (`ONE_FORM`).

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.row_conflicts import EMPTY
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.rows.among import has_one_form
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.known import check_known
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import KIND_FIELD, BucketMode, TableSchema
from bucketlake.spark import actions, instants
from bucketlake.spark.arrow_rows import spark_table
from bucketlake.spark.assignment import Rules, is_final
from bucketlake.spark.changes import DELETE, OLD, left_behind, moves, refuse_unlike, without_keys
from bucketlake.spark.conform import as_key
from bucketlake.spark.maintain.compaction import after_no_change
from bucketlake.spark.merge.clauses import INSERT, UPDATE, Merge, Side, assigned, check_keys
from bucketlake.spark.merge.held import NUMBER, Held, Target
from bucketlake.spark.merge.outcome import KIND, Scope
from bucketlake.spark.merge.pruning import Prune, equals_alike, extra_columns, known_values, needed_columns
from bucketlake.spark.merge.stages import Rows, Stages, has_nulls, repeats, violation
from bucketlake.spark.read import among, hidden, reader
from bucketlake.spark.types import quoted, spark_schema, spark_type
from bucketlake.spark.write import writer
from bucketlake.table import Table
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

TakeSource = Callable[["Snapshot | None"], Held]
"""The source's rows as of now, evaluated once, numbered; ConflictError where a source that reads the table itself would
not see this snapshot."""


@dataclass(frozen=True)
class KeyedMerge:
    """A MERGE with its stars expanded."""

    spark: SparkSession
    table: Table
    merge: Merge
    rules: Rules

    @property
    def schema(self) -> TableSchema:
        """The table's."""
        return self.table.schema

    def run(self, take: TakeSource, prune: Prune) -> Snapshot | None:
        """At most one commit; planned and evaluated anew where others changed its rows meanwhile."""
        check_keys(self.merge, self.schema)

        def once(attempt: Attempt) -> Snapshot | None:
            base = attempt.on(self.table.store.latest_snapshot())
            check_known(self.table.store, base)
            source = take(base)
            pruned = prune(source)
            refuse_unlike(self.spark, self.table, base, pruned)
            return self._upsert(source) if self._is_upsert(source) else self._merge(base, source, pruned)

        return Attempts(self.table.store).run(once) or after_no_change(self.spark, self.table.store)

    # ---- rows looked up

    def _merge(self, base: Snapshot | None, source: Held, prune: Predicate | None) -> Snapshot | None:
        target = self._target(base, source, prune)
        moving = moves(self.schema, list(assigned(self.merge.clauses)))
        identity = self.schema.field_names if moving else self._one_row_keys
        scope = Scope(self.schema, self.rules, self.merge.target, given=self.merge.given)
        old = {OLD + name: (name, spark_type(self.schema.field(name).type)) for name in identity}
        stages = Stages(self.spark, self.merge, scope, old, self._names_key(source))
        rows = stages.rows(target, source)
        keys = [OLD + key for key in self._one_row_keys]
        if rows.pairs is not None and self.merge.counts_matches and repeats(rows.pairs, keys):
            raise violation()
        kinds = {clause.kind for clause in self.merge.clauses}
        replaces = {INSERT, DELETE} <= kinds and not (stages.single and self._compares_key_alone)
        if replaces and self.schema.table_options.get("merge-engine") != "deduplicate":
            self._refuse_replaced(rows)
        if rows.few and not moving and is_final(self.schema.fields):
            return self._write_given(rows, keys, base)
        frame = rows.frame(INSERT, UPDATE, DELETE)
        if frame is None:
            return None
        if rows.pairs is not None and not self.merge.counts_matches:
            frame = _distinct(frame, keys) if len(rows.parts) == 1 else self._deleted_once(rows, keys)
        if replaces:
            frame = self._less_replaced(frame)
        return self._write(self._with_left(frame) if moving else frame, base, rows.few)

    def _names_key(self, source: Held) -> bool:
        """Whether the condition compares the whole primary key with columns of its types, whose values have one form
        and so equal at most one of the table's."""
        places: dict[str, list[T.DataType]] = {}
        for field in source.schema.fields:
            places.setdefault(field.name, []).append(field.dataType)
        same = {
            item.column
            for item in self.merge.equalities
            if item.source is not None
            and len(places.get(item.source, ())) == 1
            and equals_alike(self.schema.field(item.column).type, places[item.source][0])
        }
        everywhere = set(self.schema.partition_keys) <= set(self.schema.primary_keys)
        return everywhere and same.issuperset(self.schema.primary_keys)

    @property
    def _compares_key_alone(self) -> bool:
        """Whether the condition is the equality of the primary key and nothing else: what matches no row of the table
        has a key of its own then."""
        return self.merge.only and {item.column for item in self.merge.equalities} == set(self.schema.primary_keys)

    def _deleted_once(self, rows: Rows, keys: list[str]) -> DataFrame:
        """The rows, with those that several source rows delete but once."""
        first, *others = [part.frame.where(F.col(KIND) >= 0) for part in rows.parts.values()]
        first = _distinct(first, keys)
        for other in others:
            first = first.union(other)
        return first

    def _write_given(self, rows: Rows, keys: list[str], base: Snapshot | None) -> Snapshot | None:
        """Write rows that are in the driver, those that several source rows delete but once. Deletes come first: they
        speak of rows that were there, and another may come under such a key."""
        gone, others = rows.data(DELETE), rows.data(INSERT, UPDATE)
        assert gone is not None
        assert others is not None
        if rows.pairs is not None and not self.merge.counts_matches:
            gone = _once(gone, keys)
        chosen = pa.concat_tables([gone, others]).select([*self.schema.field_names, KIND])
        if not chosen.num_rows:
            return None
        return writer.write(self.spark, self.table, chosen, _request(base, local=True))

    def _less_replaced(self, frame: DataFrame) -> DataFrame:
        """The rows, without deletes of keys under which another row comes: tasks write them in no order, unless
        `sequence.field` says which of both is the later one."""
        gone = frame.where(F.col(KIND) == DELETE)
        keys = tuple(dict.fromkeys((*self._one_row_keys, *self.schema.table_options.names("sequence.field"))))
        gone = without_keys(gone, frame.where(F.col(KIND) == INSERT), self.schema, keys)
        return frame.where(F.col(KIND) != DELETE).union(gone)

    def _refuse_replaced(self, rows: Rows) -> None:
        """UnsupportedError where a row comes under the key of one that is deleted: written together they would be one
        row to engines that merge, with values of the old one."""
        frame = rows.frame(INSERT, DELETE)
        if frame is None:
            return
        gone = frame.where(F.col(KIND) == DELETE)
        stays = without_keys(gone, frame.where(F.col(KIND) == INSERT), self.schema, self._one_row_keys)
        if actions.count(gone) != actions.count(stays):
            raise UnsupportedError(
                "a MERGE that inserts a row under the key of one that it deletes",
                table=self.table.name,
                merge_engine=self.schema.table_options.get("merge-engine"),
                remedy="DELETE the rows first, then INSERT",
            )

    @property
    def _one_row_keys(self) -> tuple[str, ...]:
        """The columns by which the table holds one row."""
        everywhere = self.schema.bucket_mode is BucketMode.KEY_DYNAMIC
        return tuple(dict.fromkeys((*self.schema.primary_keys, *(() if everywhere else self.schema.partition_keys))))

    def _with_left(self, frame: DataFrame) -> DataFrame:
        """The rows, with deletes of those that leave their partition."""
        columns = [*map(quoted, self.schema.field_names), KIND]
        updated = frame.where(F.col(KIND) == UPDATE)
        arrived = frame.where(F.col(KIND) != DELETE)
        return frame.select(*columns).union(left_behind(updated, self.schema, arrived))

    def _target(self, base: Snapshot | None, source: Held, prune: Predicate | None) -> Target:
        """The rows of the table that can matter."""
        moving = moves(self.schema, list(assigned(self.merge.clauses)))  # old rows are written, too
        columns = None if moving else needed_columns(self.merge, self.schema)
        extra = extra_columns(self.merge, self.schema)
        fields = self.schema.fields if columns is None else self.schema.select(columns)
        if base is None:
            own = instants.shown_schema(fields, self.table.options).fields
            given = [*own, *hidden.hidden_fields(extra, self.schema)]
            return Target(lambda: self.spark.createDataFrame([], T.StructType(given)), True)
        selection = Selection(base)
        plan = self.table.planned(prune, selection)
        small = plan.row_count <= reader.SMALL_ROWS and plan.size <= reader.SMALL_BYTES
        if extra:
            elsewhere = not {name.lower() for name in source.schema.names}.isdisjoint(extra)
            wanted = hidden.Wanted(columns, extra, prune, elsewhere)
            return Target(lambda: hidden.frame(self.spark, self.table, plan, wanted), small)
        found = self._looked_up(plan, source, fields)
        if found is not None:
            return Target.here(self.spark, spark_table(found, fields), spark_schema(fields), fields)
        need = reader.Need(columns, prune)
        return Target(lambda: reader.pruned(self.spark, self.table, selection, need), small)

    def _looked_up(self, plan: Plan, source: Held, fields: Sequence[DataField]) -> pa.Table | None:
        """The rows of the target under the keys of a few source rows; None where these do not say all that matter."""
        known = known_values(self.merge, self.schema, source)
        if instants.tells_otherwise(self.schema):
            return None  # the rows would be those that are stored
        if known is None or not set(self.schema.primary_keys) <= {item.name for item in known.fields}:
            return None
        values = known.only(self.schema.primary_keys)
        return among.of_keys(self.spark, self.table.store, plan, values, [item.name for item in fields])

    def _write(self, frame: DataFrame, base: Snapshot | None, local: bool) -> Snapshot | None:
        rows = frame.select(*map(quoted, self.schema.field_names), KIND)
        return writer.write(self.spark, self.table, rows, _request(base, local))

    # ---- upsert

    def _is_upsert(self, source: Held) -> bool:
        """Whether writing the source's rows is all that the statement means."""
        if not self.may_upsert(source.schema):
            return False
        keys = {(item.source or "").lower() for item in self.merge.equalities}
        named = [name for name in source.schema.names if name.lower() in keys]
        return not has_nulls(source, named) and not repeats(source, named)

    def may_upsert(self, source: T.StructType) -> bool:
        """Whether it is, of a source with these columns, if each of its rows has a key of its own, without a null."""
        schema, merge = self.schema, self.merge
        options = schema.table_options
        if options.get("merge-engine") != "deduplicate" or options.get("changelog-producer") == "input":
            return False
        if schema.bucket_mode is not BucketMode.KEY_DYNAMIC and not set(schema.partition_keys) <= set(
            schema.primary_keys
        ):
            return False
        if not all(has_one_form(schema.field(key).type) for key in schema.primary_keys):
            return False
        if not self._compares_key_alone:
            return False
        if len(merge.equalities) != len(schema.primary_keys) or not self._writes_whole_rows():
            return False
        types = {field.name.lower(): field.dataType for field in source.fields}
        beside = {item.column: (item.source or "").lower() for item in merge.equalities}
        if any(types.get(beside[key]) != spark_type(schema.field(key).type) for key in schema.primary_keys):
            return False
        return len(types) == len(source.fields)

    def _writes_whole_rows(self) -> bool:
        """Whether there is one clause for matched rows and one for others, without conditions, that set every column to
        the same, and those of the key to what the condition compares them with."""
        matched, others = self.merge.of(Side.MATCHED), self.merge.of(Side.NOT_MATCHED)
        if len(matched) != 1 or len(others) != 1 or len(self.merge.clauses) != 2:
            return False
        update, insert = matched[0], others[0]
        if update.kind != UPDATE or update.condition is not None or insert.condition is not None:
            return False
        if any(value.keeps and self.schema.field(value.path[0]).type.root is Root.ROW for value in update.values):
            return False
        given = {value.path: _plain(value.text) for value in update.values}
        if given != {value.path: _plain(value.text) for value in insert.values}:
            return False
        if set(given) != {(name,) for name in self.schema.field_names}:
            return False
        source = self.merge.source.lower()
        if not all(text.startswith(f"{source}.") and text.count(".") == 1 for text in given.values()):
            return False
        return all(given[(item.column,)] == f"{source}.{item.source}".lower() for item in self.merge.equalities)

    def _upsert(self, source: Held) -> Snapshot | None:
        layout = instants.shown_schema(self.schema.fields, self.table.options)
        nothing = self.spark.createDataFrame([], layout).alias(self.merge.target)
        own = source.frame.alias(self.merge.source)
        _ = nothing.join(own, self.merge.expr(self.merge.on), "inner").schema  # Spark says what is wrong
        scope = Scope(self.schema, self.rules, self.merge.target, given=self.merge.given)
        rows = Stages(self.spark, self.merge, scope, {}).inserted(own)
        if not source.count:
            return None
        request = writer.WriteRequest(kinds=KIND_FIELD.name, operation="MERGE", local=source.few)
        return writer.write(self.spark, self.table, rows, request)


def _request(base: Snapshot | None, local: bool) -> writer.WriteRequest:
    read = EMPTY if base is None else base
    return writer.WriteRequest(kinds=KIND_FIELD.name, operation="MERGE", read=read, local=local)


def _once(rows: pa.Table, keys: list[str]) -> pa.Table:
    """The first row of each key."""
    numbered = rows.select(keys).append_column(NUMBER, pa.array(np.arange(rows.num_rows)))
    return rows.take(numbered.group_by(keys).aggregate([(NUMBER, "min")]).column(f"{NUMBER}_min"))


def _plain(text: str) -> str:
    return text.strip().replace("`", "").lower()


def _distinct(frame: DataFrame, keys: list[str]) -> DataFrame:
    """The rows, one of those with one key."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    forms = {f"{KIND}{place}": as_key(F.col(quoted(key)), kinds[key]) for place, key in enumerate(keys)}
    return frame.withColumns(forms).dropDuplicates([*forms]).drop(*forms)
