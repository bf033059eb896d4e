"""MERGE into an append table: rows that go are marked or their files rewritten, rows that come are written beside.

Where clauses only update rows that match, and these can stay where they are (`ops.change.new_values`), only the columns
that they set are asked for and written.

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from bucketlake.errors import ConflictError
from bucketlake.format.index.deletion_vector import Vector
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.append_rows import Means, change_rows
from bucketlake.ops.change.new_values import in_place
from bucketlake.ops.change.row_conflicts import MergeRead
from bucketlake.ops.change.touched import Touched, path_of
from bucketlake.ops.clean.expire import after_change
from bucketlake.ops.commit.commit import Check
from bucketlake.ops.rows.row_ids import is_tracked, tracked
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.spark.assignment import Rules, is_final
from bucketlake.spark.cluster import parallelism
from bucketlake.spark.instants import refuse_skipped, tells_otherwise
from bucketlake.spark.merge.clauses import DELETE, INSERT, UPDATE, Merge, Side, assigned, unchanged
from bucketlake.spark.merge.held import Held, Target
from bucketlake.spark.merge.keyed import TakeSource
from bucketlake.spark.merge.outcome import Scope
from bucketlake.spark.merge.pruning import extra_columns, known_values, matching, needed_columns
from bucketlake.spark.merge.stages import Rows, Stages, violation
from bucketlake.spark.read.among import with_places
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.read.row_places import (
    Chosen,
    Places,
    is_small,
    live,
    placed_schema,
    positions_in,
    positions_of_rows,
    rows_with_places,
    stored_with_places,
)
from bucketlake.spark.types import quoted
from bucketlake.spark.write.append_changes import rewriter, write_given, write_rows
from bucketlake.spark.write.new_values import Found, replacer
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class AppendedMerge:
    """A MERGE with its stars expanded, and its source's columns. Remembers the rows of its last attempt."""

    spark: SparkSession
    table: Table
    merge: Merge
    rules: Rules
    source: T.StructType
    _rows: Rows | None = field(default=None, init=False)
    _numbers: dict[str, int] = field(default_factory=dict, init=False)  # of the files of `_rows`, by `path_of`

    def run(self, take: TakeSource, prune: Predicate | None) -> Snapshot | None:
        """At most one commit; planned and evaluated anew where others took its files away meanwhile. `prune`: what is
        known of the rows that matter before the source is looked at."""

        def find(store: Store, splits: Sequence[Split], base: Snapshot | None) -> dict[str, Vector]:
            source = take(base)
            if self._unchanged - unchanged(self.merge, store.schema, source.schema):
                raise ConflictError("the columns of the source changed meanwhile", remedy="merge again")
            closer = matching(self.merge, store.schema, source, prune)
            if base is not None and closer is not None and closer != prune:
                splits = plan(store, Scan(closer, Selection(base))).splits
            return self._find(store, splits, source)

        def check(base: Snapshot | None) -> Check:
            return MergeRead(self.table.store, base).check

        inserting = bool(self.merge.of(Side.NOT_MATCHED))
        replaced = self._replaced or ()
        means = Means(
            find,
            self._write,
            replacer(self.spark, replaced, self._new_values) if replaced else rewriter(self.spark),
            anew=True,
            width=parallelism(self.spark),
            check=check if inserting else None,
            replaces=tuple(item.name for item in replaced),
        )
        store = self.table.store
        return after_change(store, change_rows(store, prune, means, "MERGE"))

    @cached_property
    def _replaced(self) -> tuple[DataField, ...] | None:
        """The columns that get new values in rows that stay; None where changed rows are written whole."""
        schema = self.table.schema
        changes = [clause for clause in self.merge.clauses if clause.side is not Side.NOT_MATCHED]
        names = assigned(changes) - self._unchanged
        if not names or any(one.kind != UPDATE or one.side is not Side.MATCHED for one in changes):
            return None
        return tuple(item for item in schema.fields if item.name in names) if in_place(schema, names) else None

    @cached_property
    def _unchanged(self) -> frozenset[str]:
        return unchanged(self.merge, self.table.schema, self.source)

    def _new_values(self, store: Store, touched: Sequence[Touched]) -> Found:
        rows, fields = self._rows, self._replaced
        assert rows is not None
        assert fields is not None
        data = rows.data(UPDATE) if is_final(fields) and all(item.default is None for item in fields) else None
        make = lambda: cast("DataFrame", rows.frame(UPDATE))  # noqa: E731
        return Found(self._numbers, make, rows.few, data)

    def _find(self, store: Store, splits: Sequence[Split], source: Held) -> dict[str, Vector]:
        files = live(store, splits)
        if self._replaced is None and any(clause.kind == UPDATE for clause in self.merge.clauses):
            store = tracked(store)  # rows that change keep their ids, in other files
        target = self._target(store, files, source)
        scope = Scope(store.schema, self.rules, self.merge.target, deletes_rows=False, given=self.merge.given)
        identity = {name: (name, T.LongType()) for name in (FILE, ROW_INDEX)}
        stages = Stages(self.spark, self.merge, scope, identity, asked=self._replaced)
        self._rows = rows = stages.rows(target, source)
        self._numbers = {path_of(store, one.split, one.file): number for number, one in enumerate(files)}
        if rows.pairs is not None and self.merge.counts_matches:
            pairs = _pairs(self.spark, rows.pairs)
            if any(count > len(named) for named, count in pairs.values()):
                raise violation()
        gone = _gone(self.spark, rows)
        return {path_of(store, files[number].split, files[number].file): at for number, (at, _) in gone.items()}

    def _target(self, store: Store, files: Sequence[Chosen], source: Held) -> Target:
        """The rows of files that can matter, with their places."""
        extra, small = extra_columns(self.merge, store.schema), is_small(files)
        if any(clause.kind == UPDATE for clause in self.merge.clauses):
            refuse_skipped(self.spark, store.schema, lambda: stored_with_places(self.spark, store, files))
        apart = extra or is_tracked(store) or tells_otherwise(store.schema)
        known = None if apart else known_values(self.merge, store.schema, source)
        if known is None or not {item.name for item in known.fields}.difference(store.schema.partition_keys):
            return Target(lambda: rows_with_places(self.spark, store, files, extra, joined=True), small)
        asked = None if self._replaced is None else {item.name for item in self._replaced}
        columns = needed_columns(self.merge, store.schema, whole_deletes=False, asked=asked)
        fields = store.schema.fields if columns is None else store.schema.select(columns)
        rows = with_places(self.spark, store, files, known, fields)
        if rows is None:
            return Target(lambda: rows_with_places(self.spark, store, files, extra, joined=True), small)
        return Target.here(self.spark, rows, placed_schema(fields), fields)

    def _write(self, store: Store, snapshot: Snapshot | None, touched: Sequence[Touched]) -> Iterator[CommitMessage]:
        """New rows get ids by their commit, changed ones bring theirs: they do not share files."""
        kinds: list[tuple[Store, tuple[int, ...]]] = [(store, (INSERT, UPDATE))]
        if self._replaced is not None:
            kinds = [(store, (INSERT,))]
        elif store.schema.tracks_rows:
            kinds = [(store, (INSERT,)), (tracked(store), (UPDATE,))]
        rows = self._rows
        for place, wanted in kinds:
            if rows is None or not any(clause.kind in wanted for clause in self.merge.clauses):
                continue
            data = rows.data(*wanted) if is_final(place.schema.fields) else None
            if data is not None:
                yield from write_given(self.spark, place, snapshot, data.select(place.schema.field_names))
            elif (frame := rows.frame(*wanted)) is not None:
                own = frame.select(*map(quoted, place.schema.field_names))
                yield from write_rows(self.spark, place, snapshot, own, rows.few)


def _pairs(spark: SparkSession, pairs: Held) -> Places:
    """Where the rows of the target lie that are in pairs, and how often each file's are."""
    if pairs.data is not None:
        return positions_of_rows(pairs.data)
    return positions_in(spark, pairs.frame.select(FILE, ROW_INDEX), pairs.few)


def _gone(spark: SparkSession, rows: Rows) -> Places:
    """Where the rows lie that are deleted or replaced."""
    data = rows.data(UPDATE, DELETE)
    if data is not None:
        return positions_of_rows(data)
    frame = rows.frame(UPDATE, DELETE)
    return {} if frame is None else positions_in(spark, frame.select(FILE, ROW_INDEX), rows.few)
