"""MERGE INTO: what it says and what that means, run by `spark.merge`. Its text is read in `merge_forms`.

Spec: docs/sql/merge.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import NullType, StructType

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.change.row_changes import refuse_delete, refuse_merge
from bucketlake.ops.scan.key_types import merged_schema
from bucketlake.ops.table.known import check_read_once
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.default import default_sql
from bucketlake.schema.merging import MERGE_SCHEMA, Merging, besides
from bucketlake.spark import instants
from bucketlake.spark.assignment import Rules, typed
from bucketlake.spark.merge.appended import AppendedMerge
from bucketlake.spark.merge.clauses import (
    DELETE,
    INSERT,
    UPDATE,
    Clause,
    Equality,
    Merge,
    Side,
    Value,
    assigned,
    check_values,
    expanded,
)
from bucketlake.spark.merge.evolving import EvolvingMerge
from bucketlake.spark.merge.held import Held, hold_source
from bucketlake.spark.merge.keyed import KeyedMerge
from bucketlake.spark.merge.pruning import matching, needed_columns
from bucketlake.spark.merge.stages import check
from bucketlake.spark.read.hidden import COLUMNS
from bucketlake.spark.table import LakeTable
from bucketlake.spark.types import quoted
from bucketlake.sql.query import input_file, query
from bucketlake.sql.query.moment import at_moment
from bucketlake.sql.query.parser import Settings
from bucketlake.sql.query.parser import Source as Columns
from bucketlake.sql.query.pushdown import condition
from bucketlake.sql.rows.target import Target, column_path, has_subquery, is_default, may_read
from bucketlake.sql.rows.ways import Explained, deleted, updated
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.plain import timestamp_pieces
from bucketlake.sql.text.tokens import blank, splice, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.types.model import DataField

_LOOSE = ("AND", "OR", "BETWEEN")
# By whether there are clauses for rows of the target without a match, and of the source.
_JOINS = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): "INNER"}


@dataclass(frozen=True, slots=True)
class Text:
    """An expression, and where it starts in the statement."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class When:
    """A WHEN clause as written. `columns`: names assigned; None with `values`: `*`."""

    side: Side
    kind: int
    condition: Text | None = None
    columns: tuple[tuple[str, ...], ...] | None = ()
    values: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """What is merged. `query`: the statement that gives its rows. `parts`: the table's name, where it is one.
    `table`: what stands before, and a table as written, where it is one."""

    query: str
    name: str
    parts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    table: tuple[str, str] = ("", "")

    def with_metadata(self, texts: Sequence[Text]) -> Source:
        """The source with those of a table's metadata columns that the statement names by it."""
        if not self.table[1] or self.columns:
            return self
        found: dict[str, str] = {}
        for text in texts:
            values = [token.value.strip("`").lower() for token in Cursor(text.text).tokens]
            for name, dot, column in zip(values, values[1:], values[2:], strict=False):
                if dot == "." and name == self.name.lower():
                    found |= {known: known for known in COLUMNS if known.lower() == column}
        more = "".join(f", {name}" for name in found)
        return replace(self, query=f"{self.table[0]} SELECT *{more} FROM {self.table[1]}") if found else self

    def frame(self, lake: Lake, millis: int | None = None) -> DataFrame:
        """Its rows as of now, under its columns' names. `millis`: the time that its functions are told."""
        frame = query.run(lake, self.query) if millis is None else query.run_at(lake, self.query, millis)
        if not self.columns:
            return frame
        if len(self.columns) != len(frame.columns):
            raise InvalidError(
                "the source has a different number of columns than its alias names",
                columns=len(frame.columns),
                names=list(self.columns),
            )
        return frame.toDF(*self.columns)


@dataclass(frozen=True, slots=True)
class _Named:
    """The columns of one table in a text. `qualifiers`: names of the table; `others`: the other table's columns, which
    an unqualified name may mean as well."""

    names: Sequence[str]
    qualifiers: tuple[tuple[str, ...], ...]
    others: Sequence[str]
    rules: Rules

    def find(self, parts: tuple[str, ...]) -> str | None:
        """The column that a name in parts means for certain."""
        fold = str if self.rules.sensitive else str.lower
        wanted = tuple(fold(part) for part in parts)
        places = [name for name in self.names if wanted and fold(name) == wanted[-1]]
        if len(places) != 1:
            return None
        if len(wanted) == 1:
            return None if wanted[0] in {fold(name) for name in self.others} else places[0]
        known = [tuple(part.lower() for part in qualifier) for qualifier in self.qualifiers if qualifier]
        return places[0] if tuple(part.lower() for part in parts[:-1]) in known else None


@dataclass(slots=True)
class MergeInto:
    """A parsed MERGE. `evolves`: WITH SCHEMA EVOLUTION; `given`: Columns by the names that stand for
    them in texts; `millis`: the time that all of it sees."""

    statement: str
    target: Target
    source: Source
    on: Text
    clauses: tuple[When, ...]
    evolves: bool = False
    given: Mapping[str, Column] = field(default_factory=dict)
    millis: int = 0

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """At most one commit.

        Spec: docs/spec/row_changes.md#merge
        """
        self.apply(lake, self._table(lake, name))

    def _table(self, lake: Lake, name: names.LakeName) -> LakeTable:
        found = names.find(lake, self.source.parts) if len(self.source.parts) == 1 else None
        if found is not None:
            self.source = replace(self.source, parts=(found.database, *self.source.parts))
        return self.target.table(lake, name)

    def apply(self, lake: Lake, table: LakeTable) -> Snapshot | None:
        """Merge into a table; the snapshot, None where nothing was to change."""
        table, source, merge, rules = self._checked(lake, table)
        writable, known = table.table.for_writing(), self._known(lake, table, source.names)
        if table.schema.primary_keys:
            return KeyedMerge(lake.spark, writable, merge, rules).run(
                lambda base: self._take(lake, table, base),
                lambda held: matching(merge, table.schema, held, known),
            )
        prune = None if merge.of(Side.NOT_MATCHED_BY_SOURCE) else known
        if table.schema.data_evolution:
            evolving = EvolvingMerge(lake.spark, writable, merge, rules)
            return evolving.run(lambda base: self._take(lake, table, base), prune)
        appended = AppendedMerge(lake.spark, writable, merge, rules, source)
        return appended.run(lambda base: self._take(lake, table, base), prune)

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """What becomes of the rows that the join of both tables finds, nothing done.

        Spec: docs/spec/row_changes.md#explain
        """
        table, source, merge, rules = self._checked(lake, self._table(lake, name))
        table.table.for_writing()
        check(lake.spark, merge, table.schema, source, rules)
        schema = table.schema
        if schema.primary_keys and KeyedMerge(lake.spark, table.table, merge, rules).may_upsert(source):
            told = "MERGE, the source's rows are written: if no two have one key, nothing of the table is read"
            return Explained(name.full, told, self.source.query)
        ways = {
            UPDATE: f"UPDATE: {updated(schema, sorted(assigned(merge.clauses)))}",
            DELETE: f"DELETE: {deleted(schema)}",
            INSERT: "INSERT: rows are added",
        }
        told = "; ".join(ways[kind] for kind in dict.fromkeys(clause.kind for clause in merge.clauses))
        return Explained(name.full, f"MERGE; {told}", self._joined(merge, schema))

    def _joined(self, merge: Merge, schema: TableSchema) -> str:
        """The query that joins both tables."""
        sides = {clause.side for clause in merge.clauses}
        join = _JOINS[Side.NOT_MATCHED_BY_SOURCE in sides, Side.NOT_MATCHED in sides]
        names = f"({', '.join(map(quoted, self.source.columns))})" if self.source.columns else ""
        theirs = f"({self.source.query.strip()}) AS {quoted(self.source.name)}{names}"
        mine = self.target.table_text + ("" if self.target.alias is not None else f" AS {self.target.exposed}")
        columns = needed_columns(merge, schema) or schema.field_names
        listed = ", ".join([f"{quoted(self.source.name)}.*", *map(self.target.column, columns)])
        return f"SELECT {listed} FROM {theirs} {join} JOIN {mine} ON {self._padded(self.on).strip()}"

    def _checked(self, lake: Lake, table: LakeTable) -> tuple[LakeTable, StructType, Merge, Rules]:
        """The table as the statement leaves its columns, the source's columns, and what is to be done."""
        refuse_merge(table.schema)
        if any(clause.kind == DELETE for clause in self.clauses):
            refuse_delete(table.schema)
        self._refuse_subqueries()
        rules = instants.rules(lake.spark, table.options)
        source = self.source.frame(lake).schema
        table, rules = self._evolved(table, source, rules)
        return table, source, self._planned(table, source.names, rules), rules

    def _planned(self, table: LakeTable, columns: list[str], rules: Rules) -> Merge:
        merge = expanded(self._merge(table.schema, columns, rules), table.schema, columns, rules)
        input_file.refuse_calls(merge.on)
        for clause in merge.clauses:
            check_values(clause)
            for text in (clause.condition or "", *(value.text for value in clause.values)):
                input_file.refuse_calls(text)
        self.millis = table.table.store.env.clock.now_millis()
        known = {*table.schema.field_names, *columns}

        def told(text: str) -> str:
            return at_moment(text, self.millis, known)

        def seen(clause: Clause) -> Clause:
            values = tuple(replace(value, text=told(value.text)) for value in clause.values)
            return replace(clause, condition=clause.condition and told(clause.condition), values=values)

        return replace(merge, on=told(merge.on), clauses=tuple(map(seen, merge.clauses)))

    def _evolved(self, table: LakeTable, source: StructType, rules: Rules) -> tuple[LakeTable, Rules]:
        """The table with the columns that the source brings, and rules that fill what it lacks; where the statement or
        the option `write.merge-schema` wants that.

        Spec: docs/sql/merge.md#new-columns
        """
        if self.evolves:
            table = table.with_options({MERGE_SCHEMA: "true"})
        merging_rules = Merging.of(table.options, rules.sensitive)
        if merging_rules is None:
            return table, rules
        rules = replace(rules, fill=True)
        given = self._brought(table, source, rules)
        future = merged_schema(table.table.store, given, merging_rules, table.name)
        if future is not None:
            merge = expanded(self._merge(future, source.names, rules), future, source.names, rules)
            check(table.spark, merge, future, source, rules)
        return replace(table, table=table.table.evolved(given, rules.sensitive)) if given else table, rules

    def _brought(self, table: LakeTable, source: StructType, rules: Rules) -> list[DataField]:
        """What may become columns or members of the table: with a star all of the source, else its columns that clauses
        assign to and the table lacks, and what columns and members hold besides that clauses assign to the source's of
        the same names."""
        told = typed(source, instants.shown_schema(table.schema.fields, table.options), rules)
        fields = [item for item in told.fields if not isinstance(item.dataType, NullType) and item.name not in COLUMNS]
        given = instants.made_fields(StructType(fields), table.options, table.schema.fields)
        clauses = [clause for clause in self.clauses if clause.side is not Side.NOT_MATCHED_BY_SOURCE]
        if any(clause.columns is None for clause in clauses):
            return given
        fold: Callable[[str], str] = str if rules.sensitive else str.lower
        known = {fold(item.name): item.type for item in table.schema.fields}
        mine = [self.target.alias] if self.target.alias is not None else [*self.target.parts]
        written: set[tuple[str, ...]] = set()
        direct: set[tuple[str, ...]] = set()
        for clause in clauses:
            for name, value in zip(clause.columns or (), clause.values, strict=True):
                path = _behind(name, mine, fold)
                written.add(path)
                if path == _behind(_names(value.text), self.source.parts or [self.source.name], fold):
                    direct.add(path)
        found: list[DataField] = []
        for item in given:
            column = fold(item.name)
            paths = {path[1:] for path in direct if path[0] == column}
            if column not in known and (column,) in written:
                found.append(item)
            elif paths:
                own = known.get(column) or replace(item.type, fields=())
                found.append(replace(item, type=besides(own, item.type, paths, fold)))
        return found

    def _take(self, lake: Lake, table: LakeTable, base: Snapshot | None) -> Held:
        """The source, evaluated once. What it reads of the target is of the snapshot that the target is read of."""
        frame = self.source.frame(lake, self.millis)
        if may_read(lake, table, self.source.query):
            check_read_once(table.table.store, base, "a table was read that is merged into itself")
        return hold_source(lake.spark, frame, query.names_no_table(tokenize(self.source.query)))

    # ---- as values

    def _merge(self, schema: TableSchema, columns: list[str], rules: Rules) -> Merge:
        target = self.target.alias if self.target.alias is not None else self.target.parts[-1]
        if target.lower() == self.source.name.lower():
            raise InvalidError(
                "target and source have one name",
                name=target,
                remedy="give them aliases of their own: MERGE INTO t AS a",
            )
        equalities, only = self._equalities(schema, target, columns, rules)
        texts = [self.on, *(text for clause in self.clauses for text in (clause.condition, *clause.values) if text)]
        sides = {target: schema.field_names, self.source.name: columns}
        words = [text.text for text in texts] + (list(schema.field_names) if self.given else [])
        qualified = all(_is_qualified(text.text, sides) for text in texts[1:])
        named = {name for text in texts[1:] for name in _named(text.text, target)} if qualified else set()
        return Merge(
            target,
            self.source.name,
            self._padded(self.on),
            tuple(self._clause(clause, schema, columns, rules.sensitive) for clause in self.clauses),
            tuple(equalities),
            only,
            " ".join(words).lower(),
            self.given,
            qualified,
            frozenset(name for name in schema.field_names if name.lower() in named)
            if qualified and not self.given
            else None,
        )

    def _clause(self, clause: When, schema: TableSchema, columns: Sequence[str], sensitive: bool) -> Clause:
        condition = None if clause.condition is None else self._padded(clause.condition)
        if clause.columns is None:
            return Clause(clause.side, clause.kind, condition, star=True)
        verb = "INSERT" if clause.kind == INSERT else "UPDATE"
        paths = [column_path(schema, self.target, written, verb, sensitive) for written in clause.columns]
        if clause.kind == INSERT and any(len(path) > 1 for path in paths):
            nested = [".".join(path) for path in paths if len(path) > 1]
            raise InvalidError("INSERT assignment keys cannot be nested fields", columns=nested)
        mine = [] if clause.side is Side.NOT_MATCHED else schema.field_names
        seen = {*mine, *([] if clause.side is Side.NOT_MATCHED_BY_SOURCE else columns)}
        values = [
            Value(path, _default(schema, path) if is_default(text.text, seen) else self._padded(text))
            for path, text in zip(paths, clause.values, strict=True)
        ]
        return Clause(clause.side, clause.kind, condition, tuple(values))

    def _padded(self, text: Text) -> str:
        """The text at its place in the statement; `db.t.c` as `t.c`, since frames know tables by their last name (the
        source by another where both have one), and Flink's timestamps as Spark's."""
        end = text.start + len(text.text)
        cut = blank(self.statement[:end], [(0, text.start)])
        mine, theirs = _endings(self._target_parts), _endings(self.source.parts)
        pieces = [(start, last, "") for parts in mine for start, last, _ in _written(text, parts)]
        for start, last, end in (found for parts in theirs - mine for found in _written(text, parts)):
            pieces.append((start, end, self.source.name) if mine & theirs else (start, last, ""))
        self._refuse_either(text, mine & theirs)
        padded = splice(cut, [(start, end, _as_long(cut[start:end], name)) for start, end, name in pieces])
        return splice(padded, timestamp_pieces(padded))

    @property
    def _target_parts(self) -> tuple[str, ...]:
        """The target's name as columns may have it before them, where no alias takes its place."""
        return () if self.target.alias is not None else self.target.parts

    def _refuse_either(self, text: Text, shared: Collection[tuple[str, ...]]) -> None:
        """InvalidError where a name that means either table stands before a column."""
        for parts in shared:
            if _written(text, parts):
                raise InvalidError(
                    "target and source have one name",
                    name=".".join(parts),
                    text=text.text,
                    remedy="name the columns with the databases before, or give the tables aliases: MERGE INTO t AS a",
                )

    def _equalities(
        self, schema: TableSchema, target: str, columns: list[str], rules: Rules
    ) -> tuple[list[Equality], bool]:
        """The comparisons of target columns in the condition that must all hold, and whether they are all of it."""
        shared = bool(_endings(self._target_parts) & _endings(self.source.parts))
        mine = _Named(schema.field_names, (() if shared else (target,), self._target_parts), columns, rules)
        theirs = _Named(columns, ((self.source.name,), self.source.parts), schema.field_names, rules)
        found: list[Equality] = []
        only = True
        for part in _conjuncts(self.on.text):
            sides = [_names(text) for text in part]
            pairs = [(mine.find(own), other) for own, other in (sides, sides[::-1])] if len(sides) == 2 else []
            item = next(((own, other) for own, other in pairs if own is not None and mine.find(other) is None), None)
            if item is None or item[0] is None:
                only = False
                continue
            source = theirs.find(item[1])
            only = only and source is not None
            found.append(Equality(item[0], source))
        return found, only

    def _known(self, lake: Lake, table: LakeTable, columns: list[str]) -> Predicate | None:
        """What the condition says of the target's rows alone. Names that are also the source's are left to Spark."""
        others = {name.lower() for name in columns}
        fields = [item for item in table.schema.fields if item.name.lower() not in others]
        name = self.target.alias if self.target.alias is not None else self.target.parts[-1]
        qualified = Columns(None, name, table.schema.fields, instants.unproved(table.schema.fields, table.options))
        settings = Settings(lake.spark)
        text = self._padded(self.on)
        if len(fields) == len(table.schema.fields) or _all_qualified(self.on.text, others):
            return condition(text, qualified, settings)
        return condition(text, replace(qualified, fields=fields), settings)

    def _refuse_subqueries(self) -> None:
        texts = [(self.on, "condition")]
        texts += [(clause.condition, "condition") for clause in self.clauses if clause.condition is not None]
        texts += [(value, "value") for clause in self.clauses for value in clause.values]
        for text, what in texts:
            if has_subquery(text.text):
                raise UnsupportedError(
                    f"MERGE {what} with subquery can't be supported", text=text.text, remedy="join it to the source"
                )


def check_order(clauses: Sequence[When]) -> None:
    """InvalidError where a clause without a condition hides one after it."""
    for side in Side:
        own = [clause for clause in clauses if clause.side is side]
        if any(clause.condition is None for clause in own[:-1]):
            kind = "NOT_MATCHED_BY_TARGET" if side is Side.NOT_MATCHED else side.value.replace(" ", "_")
            raise InvalidError(
                f"[NON_LAST_{kind}_CLAUSE_OMIT_CONDITION] SQL: only the last WHEN {side.value} clause can be without "
                "a condition",
                remedy="give the others conditions, or leave out what follows",
            )


def _behind(name: tuple[str, ...], table: Sequence[str], fold: Callable[[str], str]) -> tuple[str, ...]:
    """A column's name and its members', folded, without the table's name before it, whole or its last parts."""
    parts, whole = tuple(map(fold, name)), tuple(map(fold, table))
    ends = (whole[first:] for first in range(len(whole)))
    return next((parts[len(end) :] for end in ends if end and parts[: len(end)] == end and parts[len(end) :]), parts)


def _default(schema: TableSchema, path: tuple[str, ...]) -> str:
    return default_sql(schema.field(path[0])) if len(path) == 1 else "NULL"


def _conjuncts(text: str) -> list[list[str]]:
    """The condition's parts that AND joins at its top, each as the two sides of `=` or one text for anything else; one
    text for a condition that is an OR."""
    found: list[list[str]] = []
    for whole in _anded(text):
        part = Cursor(whole)
        if part.tokens and part.tokens[0].value == "(" and _closes(part) == len(part.tokens) - 1:
            found += _conjuncts(whole[part.tokens[0].end : part.tokens[-1].start])
            continue
        sides = [part.expression("=")] if not part.done else [whole]
        if part.accept("=") and not part.done:
            sides.append(part.expression("="))
        found.append(sides if part.done and not any(map(_binds_less, sides)) else [whole])
    return found


def _anded(text: str) -> list[str]:
    """The texts between the ANDs of a condition, outside brackets and CASE; the text itself where it is an OR."""
    cursor = Cursor(text)
    parts = []
    try:
        while not cursor.done:
            start = cursor.tokens[cursor.at].start
            cursor.expression("AND", "OR", "BETWEEN")
            while cursor.accept("BETWEEN"):
                cursor.expression("AND")
                cursor.expect("AND")
                cursor.expression("AND", "OR", "BETWEEN")
            parts.append(text[start : cursor.tokens[cursor.at - 1].end])
            if not cursor.done:
                cursor.expect("AND")
    except InvalidError:
        return [text]
    return parts


def _binds_less(text: str) -> bool:
    """Whether a side of `=` has words that bind less than it does."""
    cursor = Cursor(text)
    return cursor.sees("NOT") or any(token.is_word(word) for token in cursor.tokens for word in _LOOSE)


def _closes(cursor: Cursor) -> int:
    """The token that closes the bracket at the first one."""
    depth = 0
    for place, token in enumerate(cursor.tokens):
        depth += (token.value == "(") - (token.value == ")")
        if not depth:
            return place
    return -1


def _names(text: str) -> tuple[str, ...]:
    """The parts of a column's name; none for any other text."""
    cursor = Cursor(text)
    try:
        parts = cursor.name()
    except InvalidError:
        return ()
    return parts if cursor.done else ()


def _written(text: Text, parts: tuple[str, ...]) -> list[tuple[int, int, int]]:
    """Where a table's name stands before a column, in the statement: its start, that of its last part, its end."""
    tokens = Cursor(text.text).tokens
    size = 2 * len(parts)
    places = []
    for at in range(len(tokens) - size):
        found = tokens[at : at + size]
        if at and tokens[at - 1].value == ".":
            continue
        words = tuple(token.value.lower() for token in found[::2])
        if words == parts and all(token.value == "." for token in found[1::2]):
            places.append((text.start + found[0].start, text.start + found[-2].start, text.start + found[-2].end))
    return places


def _as_long(written: str, name: str) -> str:
    """A name with blanks before it, as long as the text in whose place it stands; lines stay."""
    kept = len(written) - len(name)
    return re.sub(r"[^\n]", " ", written[:kept]) + "\n" * written.count("\n", kept) + name


def _endings(parts: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The names, folded, by which a table may be called whose whole name this is."""
    return {tuple(part.lower() for part in parts[first:]) for first in range(len(parts))}


def _all_qualified(text: str, columns: set[str]) -> bool:
    """Whether none of these names stands in a text without a table's before it."""
    tokens = Cursor(text).tokens
    return not any(
        token.kind in ("word", "quoted") and token.value.lower() in columns and not (at and tokens[at - 1].value == ".")
        for at, token in enumerate(tokens)
    )


def _named(text: str, table: str) -> Iterator[str]:
    """The columns of a table that a qualified text names, folded."""
    tokens = Cursor(text).tokens
    for at in range(2, len(tokens)):
        owner = tokens[at - 2].value.lower() == table.lower() and (at < 3 or tokens[at - 3].value != ".")
        if owner and tokens[at - 1].value == ".":
            yield tokens[at].value.lower()


def _is_qualified(text: str, tables: Mapping[str, Sequence[str]]) -> bool:
    """Whether a text names columns as `table.column` alone, of these tables, and no star stands for columns."""
    columns = {name.lower(): {column.lower() for column in own} for name, own in tables.items()}
    known = columns.keys() | set().union(*columns.values())
    tokens = Cursor(text).tokens
    for at, token in enumerate(tokens):
        before = tokens[at - 1].value if at else ""
        if token.value == "*" and before in ("", "(", ",", "."):
            return False
        if token.kind not in ("word", "quoted", "string") or before == ".":
            continue
        name, dotted = token.value.lower(), [part.value.lower() for part in tokens[at + 1 : at + 3]]
        if len(dotted) == 2 and dotted[0] == ".":
            if dotted[1] not in columns.get(name, ()):
                return False
        elif name in known:
            return False
    return True
