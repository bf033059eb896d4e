"""Rows of a large table that no row of a small one can meet are left out: of `fact JOIN dim ON fact.day = dim.day WHERE
dim.month = 3` all partitions of `fact` that are none of these days.

A small table's rows are read by the driver anyhow, so its keys are known before the statement is planned. They become
an IN list in what is needed of the large one, which holds for the snapshot that the statement reads of both.

Spec: docs/spec/pushdown.md#joins
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from bucketlake.predicate.tree import In, conjunction
from bucketlake.spark.read.reader import Need, few_values
from bucketlake.sql.query.conditions import Reading
from bucketlake.sql.query.parser import Source, bare, only
from bucketlake.sql.query.pushdown import (
    FILTERED,
    MATCHES,
    PLAIN_TABLE,
    Proof,
    demands,
    is_matched,
    join_kind,
    joins_of,
)
from bucketlake.sql.query.typed import WHOLE
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.scan.select import Selection
    from bucketlake.table import Table

WORTH_ROWS = 100_000  # of the large table: of fewer, looking costs more than it saves
MOST_VALUES = 1000  # of a list: of more, nothing is known of buckets
_SAME = {
    Root.DATE,
    Root.VARCHAR,
    Root.BOOLEAN,
}  # types whose values of one type are equal in Spark just where they are here


@dataclass(frozen=True, slots=True)
class Meeting:
    """Rows of a table in whose `column` stands no value of the `key` of another table (by its place among the
    statement's tables) change nothing."""

    column: DataField
    other: int
    key: DataField


@dataclass(frozen=True)
class Use:
    """One use of a table by a statement: what `Table.as_of` selected, and what is needed of it. `source`: None where
    nothing is to be concluded about it."""

    table: Table
    selection: Selection
    source: Source | None
    need: Need

    @property
    def plain(self) -> bool:
        """Whether it is the rows of one snapshot."""
        return self.source is not None and self.table.view is None and self.selection.span is None

    @property
    def narrows_by(self) -> frozenset[str]:
        """The columns that say in which partition and bucket a row lies; none where that is not worth a look."""
        snapshot, schema = self.selection.snapshot, self.table.schema
        if not self.plain or snapshot is None or (snapshot.total_record_count or 0) < WORTH_ROWS:
            return frozenset()
        return frozenset([*schema.partition_keys, *schema.bucket_keys])


def narrowed(proved: Proof, uses: Sequence[Use]) -> list[Need]:
    """What is needed of each table, less the rows that no row of a small table can meet."""
    found = [use.need for use in uses]
    sources = [use.source for use in uses]
    for at, use in enumerate(uses):
        wanted = use.narrows_by
        for meeting in meetings(proved, sources, at) if wanted else ():
            other = uses[meeting.other]
            if meeting.column.name not in wanted or not other.plain:
                continue
            values = few_values(other.table, other.selection, other.need.predicate, meeting.key.name, MOST_VALUES)
            if values is not None:
                listed = In(meeting.column.name, tuple(values))
                found[at] = replace(found[at], predicate=conjunction([found[at].predicate, listed]), limit=None)
    return found


def meetings(proved: Proof, sources: Sequence[Source | None], at: int) -> Iterator[Meeting]:
    """What equalities of its own SELECT demand of the columns of one of a statement's tables: conjuncts
    `column = other.key` and `column IN (SELECT key …)`, and USING."""
    source = sources[at]
    select = proved.select(source, FILTERED) if source is not None else None
    joins = joins_of(select) if select is not None else None
    if source is None or select is None or joins is None or (joins and not proved.is_told_apart(source, select)):
        return
    reading, origins = Reading(proved, source, not joins), _Origins(proved, sources)
    for column, origin in [*_equal(reading, origins, select), *_using(reading, origins, select, joins)]:
        if column is not None and origin is not None and origin[0] != at and _alike(column, origin[1]):
            yield Meeting(column, *origin)


_Origin = tuple[int, DataField] | None


def _equal(reading: Reading, origins: _Origins, select: exp.Select) -> Iterator[tuple[DataField | None, _Origin]]:
    """Columns of the table that conditions demand to be equal to something, each with where that comes from."""
    for part in demands(reading.source.node, select):
        if type(part) is exp.EQ and only(part, {"this", "expression"}):
            sides = bare(part.this), bare(part.expression)
            for mine, theirs in (sides, sides[::-1]):
                yield reading.column(mine), origins.of_column(select, theirs)
        elif type(part) is exp.In and only(part, {"this", "query"}):
            yield reading.column(part.this), origins.of_query(part.args["query"])


def _using(
    reading: Reading, origins: _Origins, select: exp.Select, joins: Sequence[exp.Join]
) -> Iterator[tuple[DataField | None, _Origin]]:
    """The same of the columns that a join of two tables names; of more, the name on the left may be any table's."""
    if len(joins) != 1 or not (join_kind(joins[0]) in MATCHES or is_matched(reading.source.node, joins[0])):
        return
    left, right = select.args["from_"].this, joins[0].this
    other = right if left is reading.source.node else left
    for item in joins[0].args.get("using") or ():
        written = reading.statement.source_of(item)
        if written is not None:
            yield reading.named(written), origins.of_name(other, written)


def _alike(left: DataField, right: DataField) -> bool:
    """Whether Spark calls values of two columns equal just where they are equal here."""
    if left.type.root in WHOLE:
        return right.type.root in WHOLE
    if left.type.root is Root.DECIMAL:
        return left.type.with_nullable(True) == right.type.with_nullable(True)
    return left.type.root in _SAME and left.type.root is right.type.root


@dataclass(frozen=True)
class _Origins:
    """Where a statement's columns come from: values of a column that has an origin are all values of that one."""

    proved: Proof
    sources: Sequence[Source | None]

    def of_column(self, select: exp.Select, node: exp.Expr) -> _Origin:
        """The origin of a column that a clause of the SELECT names."""
        if type(node) is not exp.Column or not only(node, {"this", "table"}):
            return None
        joins: list[exp.Join] = select.args.get("joins") or []
        relations = [select.args["from_"].this, *(join.this for join in joins)]
        qualifier = node.args.get("table")
        if qualifier is not None:
            written = self.proved.source_of(qualifier)
            relations = [one for one in relations if self._same(written, one.alias_or_name)]
        name = self.proved.source_of(node.this)
        return self.of_name(relations[0], name) if len(relations) == 1 and name is not None else None

    def of_query(self, query: exp.Expr) -> _Origin:
        """The origin of the one column of a query in brackets."""
        select = query.this if type(query) is exp.Subquery and only(query, {"this"}) else None
        if not isinstance(select, exp.Select) or len(select.expressions) != 1 or not self._is_known(select):
            return None
        item = select.expressions[0]
        return self.of_column(select, bare(item.this if type(item) is exp.Alias else item))

    def of_name(self, relation: exp.Expr, written: str) -> _Origin:
        """The origin of a column of a table, common table expression or derived table, by its name."""
        alias = relation.args.get("alias")
        if alias is not None and not only(alias, {"this"}):
            return None
        if type(relation) is exp.Subquery:
            return self._of_select(relation.this, written) if only(relation, {"this", "alias"}) else None
        if type(relation) is not exp.Table or not only(relation, PLAIN_TABLE):
            return None
        for at, source in enumerate(self.sources):
            if source is not None and source.node is relation:
                field = Reading(self.proved, source, True).named(written)
                return None if field is None else (at, field)
        cte = self._cte(relation)
        return None if cte is None else self._of_select(cte.this, written)

    def _of_select(self, select: exp.Expr, written: str) -> _Origin:
        if type(select) is not exp.Select or not self._is_known(select):
            return None
        items = select.expressions
        if len(items) == 1 and type(items[0]) is exp.Star and only(items[0], set()) and not select.args.get("joins"):
            return self.of_name(select.args["from_"].this, written)
        if any(item.is_star for item in items):
            return None
        named = [item for item in items if self._same(written, item.alias_or_name)]
        if len(named) != 1:
            return None
        return self.of_column(select, bare(named[0].this if type(named[0]) is exp.Alias else named[0]))

    def _is_known(self, select: exp.Select) -> bool:
        return only(select, FILTERED) and select.args.get("from_") is not None

    def _same(self, written: str | None, known: str) -> bool:
        return Reading(self.proved, Source(None, "", ()), True).same(written, known)

    def _cte(self, node: exp.Table) -> exp.CTE | None:
        """The common table expression that a table's name means; None for none, and for what is not plain."""
        if not only(node, {"this", "alias"}):
            return None
        child: exp.Expr = node
        parent = node.parent
        while parent is not None:
            clause: Any = parent if isinstance(parent, exp.With) else parent.args.get("with_")
            if clause is not None and clause is not child:
                visible: list[exp.CTE] = list(clause.expressions)
                if clause is parent:
                    visible = visible[: next(at for at, cte in enumerate(visible) if cte is child)]
                found = [cte for cte in visible if cte.alias.lower() == node.name.lower()]
                if found:
                    plain = len(found) == 1 and self._same(self.proved.source_of(node.this), found[0].alias)
                    plain = plain and not clause.args.get("recursive") and only(found[0], {"this", "alias"})
                    return found[0] if plain and only(found[0].args["alias"], {"this"}) else None
            child, parent = parent, parent.parent
        return None
