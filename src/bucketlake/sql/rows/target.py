"""The table that DELETE or UPDATE speaks of, its alias, options and condition, and the query that finds the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlglot
from pyspark.sql.types import StructType
from sqlglot import exp

from bucketlake.errors import InvalidError, did_you_mean
from bucketlake.ops.change.column_updates import named_columns
from bucketlake.ops.scan.fallback import ALONE, is_alone
from bucketlake.ops.scan.scan import newest_rows
from bucketlake.predicate.tree import Constant, Predicate
from bucketlake.schema.schema import TRACKING_FIELDS
from bucketlake.spark.beside import Beside
from bucketlake.spark.changes import Keys
from bucketlake.spark.conform import as_values
from bucketlake.spark.instants import shown_schema, unproved
from bucketlake.spark.read.hidden import FILE_PATH, hidden_fields, offered
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.types import quoted
from bucketlake.sql.query import hidden, input_file, query
from bucketlake.sql.query.parser import UNREAD, Settings, Source
from bucketlake.sql.query.pushdown import condition
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.query.views import with_views
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor, option_hints
from bucketlake.types.model import DataField, Root, type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

# What a condition may consist of to mean the same for every row of a partition: no function, nothing left to chance.
_STEADY = (
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.In),
    *(exp.Between, exp.Is, exp.Null, exp.Boolean, exp.Literal, exp.Column, exp.Identifier, exp.Subquery, exp.Tuple),
    *(exp.Cast, exp.DataType, exp.Neg, exp.Like),
)
# What gives a value that depends on nothing but those it is made of, besides; functions by the words before brackets.
_COMPUTED = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Abs, exp.Anonymous, exp.TryCast),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
)
_PLAIN_WORDS = frozenset(["AND", "OR", "NOT", "IN", "CAST", "BETWEEN", "LIKE", "IS"])
_PLAIN_CALLS = {"ABS": "Abs", "HASH": "Murmur3Hash", "MOD": "Remainder", "PMOD": "Pmod", "XXHASH64": "XxHash64"}
_CLASSES = "org.apache.spark.sql.catalyst.expressions."  # of Spark's own

# The parser's functions include the signs of logic.
_STEADY_CALLS = (exp.Max, exp.Min, exp.Count, exp.Sum, exp.Avg, exp.And, exp.Or, exp.Cast, exp.Case, exp.Exists)


_SUBQUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")  # what may stand first in one
# Words that open a clause of other statements: an alias of this name needs AS.
_NO_ALIAS = frozenset(
    [
        "LIMIT",
        "OFFSET",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "GROUP",
        "HAVING",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "MINUS",
        "JOIN",
        "LEFT",
        "RIGHT",
        "FULL",
        "INNER",
        "CROSS",
        "NATURAL",
        "LATERAL",
        "ON",
        "USING",
        "PIVOT",
        "UNPIVOT",
        "TABLESAMPLE",
        "WINDOW",
        "QUALIFY",
        "FROM",
        "SET",
        "VALUES",
        "SELECT",
        "PARTITION",
        "CASCADE",
        "RESTRICT",
        "PURGE",
        "RETURNING",
        "VERSION",
        "TIMESTAMP",
        "FOR",
        "WITH",
    ]
)


@dataclass(slots=True)
class Target:
    """`parts`: the name as written at `source`; `hint`: the OPTIONS hint behind it, as written; `condition`: what
    stands after WHERE, None without; `own`: a hint for what this statement must see of the table and
    what not: newest versions of rows, another branch."""

    parts: tuple[str, ...]
    source: str
    alias: str | None
    hint: str
    options: dict[str, str]
    condition: str | None = None
    own: str = ""

    def table(self, lake: Lake, name: names.LakeName) -> LakeTable:
        """The lake table that the name means, with the session's options and the hint's."""
        if len(self.parts) == 1:
            self.parts = (name.database, *self.parts)  # its columns may be called so
        found = lake.table(name.full).with_options({**session_options(lake, name), **self.options})
        own = {} if is_alone(found.table.store) else ALONE
        own = {**own, **newest_rows(found.table.store)}
        if own and not self.own:
            listed = ", ".join(f"'{key}'='{value}'" for key, value in own.items())
            self.own = f" /*+ OPTIONS({listed}) */"
        return found.with_options(own) if own else found

    @property
    def exposed(self) -> str:
        """The name that qualifies its columns."""
        return quoted(self.alias if self.alias is not None else self.parts[-1])

    def column(self, name: str) -> str:
        """A column of the table as SQL text that no other table's column can be taken for."""
        return f"{self.exposed}.{quoted(name)}"

    def rows(
        self, lake: Lake, columns: Mapping[str, str], own: DataFrame | None = None, every: bool = False
    ) -> DataFrame:
        """The matching rows, or every one: name → SQL text over the table's columns. `own`: a frame to put in the
        table's place."""
        head = _selected(columns)
        statement = f"{head}{self.table_text}{'' if every else self._where}"
        return query.run(lake, statement, place=None if own is None else query.Place(len(head), own))

    def text(self, columns: Mapping[str, str]) -> str:
        """The query that finds the matching rows, as `rows` runs it."""
        return f"{_selected(columns)}{self.table_text}{self._where}"

    @property
    def table_text(self) -> str:
        """The table as it stands behind FROM."""
        alias = f" AS {quoted(self.alias)}" if self.alias is not None else ""
        return f"{self.source}{self.hint}{self.own}{alias}"

    @property
    def _where(self) -> str:
        return f" WHERE {self.condition}" if self.condition is not None else ""

    def extra(self, schema: TableSchema, *texts: str) -> tuple[str, ...]:
        """The metadata columns that the condition or other texts of the statement name, or call."""
        words = " ".join((self.condition or "", *texts))
        found = hidden.named(words)
        if schema.primary_keys:
            input_file.refuse_calls(words)
        elif input_file.NAME in words.lower():
            found = (*found, FILE_PATH)
        return tuple(name for name in offered(schema) if name in found)

    def check(
        self, lake: Lake, table: LakeTable, columns: Mapping[str, str], values: Collection[str] = ()
    ) -> StructType:
        """Let Spark say what is wrong with the statement, where perhaps no row will be looked at; the columns as it
        types them. `values`: texts of which each is to be one value of one row."""
        extra = hidden_fields(self.extra(table.schema, *columns.values()), table.schema)
        own = shown_schema(table.schema.fields, table.options).fields
        none = lake.spark.createDataFrame([], StructType([*own, *extra]))
        calls = ", ".join(text for text in values if "(" in text)
        if calls:
            with as_values():
                _ = replace(self, condition=f"struct({calls}) IS NOT NULL").rows(lake, {"one": "1"}, none).schema
        return self.rows(lake, columns, none).schema  # Connect analyses only what it is asked for

    def places(self, lake: Lake, own: DataFrame) -> DataFrame:
        """Where the matching rows of `own` lie: file and position."""
        return self.rows(lake, self.placed, own)

    @property
    def placed(self) -> dict[str, str]:
        """File and position of a row, where `own` has them, as `rows` takes columns."""
        return {name: self.column(name) for name in (FILE, ROW_INDEX)}

    def predicate(self, lake: Lake, table: LakeTable) -> Predicate:
        """What is known of the matching rows without Spark; opaque parts only Spark evaluates, in the statement."""
        if self.condition is None:
            return Constant(True)
        name = self.alias if self.alias is not None else self.parts[-1]
        more = TRACKING_FIELDS if table.schema.tracks_rows else ()
        source = Source(None, name, (*table.schema.fields, *more), unproved(table.schema.fields, table.options))
        return condition(self.condition, source, Settings(lake.spark))

    def beside(self, lake: Lake, table: LakeTable, *texts: str) -> Beside:
        """What the condition and these other texts look at."""
        every = (self.condition or "", *texts)
        found = [text for text in every if has_subquery(text)]
        return Beside(
            self.extra(table.schema, *texts),
            bool(found),
            any(may_read(lake, table, f"SELECT {text}") for text in found),
            frozenset(named_columns(table.schema, every)),
        )

    def keys(self, lake: Lake, table: LakeTable) -> Keys:
        """How the matching rows are found by their keys."""

        def found(names: Sequence[str], own: DataFrame | None = None) -> DataFrame:
            return self.rows(lake, {name: self.column(name) for name in names}, own)

        alone = self.is_made_of(lake, table.schema.primary_keys)
        return Keys(found, self.predicate(lake, table), (self.condition or "",), found if alone else None)

    def is_about(self, columns: tuple[str, ...]) -> bool:
        """Whether the condition, its subqueries apart, consists of comparisons of these columns alone."""
        tree = _tree(self.condition)
        if tree is None or not columns:
            return False
        known = {name.lower() for name in columns}
        stack, seen = [tree.args["where"].this], False
        while stack:
            node = stack.pop()
            if isinstance(node, exp.Query) and _is_steady(node):
                continue
            if not isinstance(node, _STEADY):
                return False
            if isinstance(node, exp.Column):
                if node.name.lower() not in known:
                    return False
                seen = True
            stack.extend(node.iter_expressions())
        return seen

    def is_made_of(self, lake: Lake, columns: Collection[str]) -> bool:
        """Whether the condition says the same of all rows that have the same values in these columns, whenever it is
        asked: it consists of them, constants, operators and functions of Spark's own that nothing else goes into."""
        tree = _tree(self.condition)
        if tree is None or self.condition is None or "\\" in self.condition:
            return False  # where texts end at a backslash is the session's to say
        known = {name.lower() for name in columns}
        plain = tuple(kind for kind in (*_STEADY, *_COMPUTED) if kind is not exp.Subquery)
        nodes = list(tree.args["where"].this.walk())
        if not all(isinstance(node, plain) and not isinstance(node, exp.Query) for node in nodes):
            return False
        if any(isinstance(node, exp.Column) and node.name.lower() not in known for node in nodes):
            return False
        tokens = Cursor(self.condition).tokens
        before = [one for one, then in pairwise(tokens) if then.value == "(" and one.kind in ("word", "quoted")]
        calls = {one.value.upper() for one in before if one.kind == "quoted" or one.value.upper() not in _PLAIN_WORDS}
        return calls <= _PLAIN_CALLS.keys() and all(_is_sparks_own(lake.spark, name) for name in calls)


def _selected(columns: Mapping[str, str]) -> str:
    listed = ", ".join(f"{text} AS {quoted(name)}" for name, text in columns.items())
    return f"SELECT {listed} FROM "


def _is_sparks_own(spark: SparkSession, name: str) -> bool:
    """Whether a function is not one that the user put in the place of Spark's."""
    return str(spark.catalog.getFunction(name.lower()).className) == _CLASSES + _PLAIN_CALLS[name]


def may_read(lake: Lake, table: LakeTable, query: str) -> bool:
    """Whether a query, or a view that it reads, may name the table."""
    name = table.table.name.replace("`", "").rpartition(".")[2].lower()  # as the parts below are cut
    tokens = Cursor(with_views(lake, query)).tokens  # texts name tables, too: table_changes('db.t', …)
    parts = (part for token in tokens for part in token.value.lower().replace("`", "").split("."))
    return any(part.partition("$")[0] == name for part in parts)


def has_subquery(text: str) -> bool:
    """Whether one may stand in a text."""
    tokens = Cursor(text).tokens
    return any(before.value == "(" and token.value.upper() in _SUBQUERY for before, token in pairwise(tokens))


def _is_steady(query: exp.Query) -> bool:
    """Whether a subquery calls no function but aggregates that answer the same for every row."""
    return all(isinstance(call, _STEADY_CALLS) for call in query.find_all(exp.Func))


def _tree(condition: str | None) -> exp.Select | None:
    """The condition within a query; None where there is none or sqlglot does not know it."""
    tree = None if condition is None else _statement(condition)
    return tree if isinstance(tree, exp.Select) and tree.args.get("where") else None


def _statement(condition: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(f"SELECT 1 WHERE {condition}\n", dialect="spark")
    except UNREAD:
        return None


def parse_target(cursor: Cursor, *stops: str) -> Target:
    """Read `name [hint] [[AS] alias]` up to one of the stop words or the end."""
    start = cursor.at
    parts = cursor.table()
    source = cursor.text[cursor.tokens[start].start : cursor.tokens[cursor.at - 1].end]
    end = cursor.tokens[cursor.at - 1].end
    alias = None
    if cursor.accept("AS"):
        alias = cursor.identifier()
    elif not (cursor.done or any(cursor.sees(stop) for stop in stops)):
        token = cursor.peek()
        if token is not None and token.kind == "word" and token.value.upper() in _NO_ALIAS:
            cursor.fail("unexpected text")
        alias = cursor.identifier()
        if cursor.done:  # a slip of the pen rather than a name that nothing uses: the whole table is at stake
            cursor.at -= 1
            cursor.fail("unexpected text")
    following = cursor.peek()
    until = following.start if following is not None else len(cursor.text)
    hints = [hint for hint in option_hints(cursor.text, cursor.tokens) if end <= hint.start < until]
    options = {key: value for hint in hints for key, value in hint.options.items()}
    return Target(parts, source, alias, "".join(cursor.text[h.start : h.end] for h in hints), options)


def parse_condition(cursor: Cursor) -> str | None:
    """Read `[WHERE …]` to the end of the statement: one condition, in brackets, so that whoever reads it next takes it
    for one."""
    if cursor.done:
        return None
    cursor.expect("WHERE")
    if cursor.done:
        cursor.fail("WHERE needs a condition")
    start = cursor.at
    text = cursor.expression()
    cursor.at, after = start, cursor.at
    tree = _statement(text)
    if tree is not None and (not isinstance(tree, exp.Select) or set(_given(tree)) != {"expressions", "where"}):
        cursor.fail("WHERE takes a condition and nothing after it")
    cursor.at = after
    return f"({text})"


def column_path(
    schema: TableSchema, target: Target, written: tuple[str, ...], verb: str, sensitive: bool
) -> tuple[str, ...]:
    """Column and member names as the table has them, without the table's own name before, which goes before a column
    of that name; InvalidError for others. `sensitive`: as `spark.sql.caseSensitive` has it."""
    fold: Callable[[str], str] = str if sensitive else str.lower
    qualifiers = [fold(part) for part in ((target.alias,) if target.alias is not None else target.parts) if part]
    parts = written
    for count in range(len(qualifiers), 0, -1):
        behind = written[count:]
        mine = [fold(part) for part in written[:count]] == qualifiers[-count:]
        if (
            mine
            and behind
            and (_called(behind[0], schema.fields, fold) or not _called(written[0], schema.fields, fold))
        ):
            parts = behind
            break
    column = _called(parts[0], schema.fields, fold) if parts else None
    if column is None:
        remedy = did_you_mean((parts or written)[0], schema.field_names)
        behind = written[-1:] if remedy is None and parts == written else ()
        other = _called(behind[0], schema.fields, fold) if behind else None
        if other is not None:  # another table's name, or one that the alias hides
            remedy = f"did you mean '{(target.alias or target.parts[-1])}.{other.name}'?"
        what = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] no such column"
        raise InvalidError(what, column=".".join(written), columns=list(schema.field_names), remedy=remedy)
    path, kind = [column.name], column.type
    for part in parts[1:]:
        member = _called(part, kind.fields, fold) if kind.root is Root.ROW else None
        if member is None and kind.root is Root.ROW:
            members = [item.name for item in kind.fields]
            what = f"[FIELD_NOT_FOUND] no such member of {'.'.join(path)}"
            raise InvalidError(what, column=".".join(written), members=members, remedy=did_you_mean(part, members))
        if member is None:
            what = f"[INVALID_EXTRACT_BASE_FIELD_TYPE] {verb} sets columns and members of ROW columns"
            raise InvalidError(what, column=".".join(written), type=type_text(kind), remedy=f"set {'.'.join(path)}")
        path.append(member.name)
        kind = member.type
    return tuple(path)


def is_default(text: str, columns: Iterable[str]) -> bool:
    """Whether a value is the word DEFAULT. `columns`: those that it may name, of which one may be called so."""
    return text.upper() == "DEFAULT" and not any(name.upper() == "DEFAULT" for name in columns)


def _called(name: str, fields: Sequence[DataField], fold: Callable[[str], str]) -> DataField | None:
    """The field of this very name, else one that only `fold` makes the same."""
    alike = [item for item in fields if fold(item.name) == fold(name)]
    return next((item for item in alike if item.name == name), alike[-1] if alike else None)


def _given(tree: exp.Expr) -> list[str]:
    return [key for key, value in tree.args.items() if value]
