"""EXECUTE IMMEDIATE: a statement whose text is a value, run as any other.

    EXECUTE IMMEDIATE <text> [INTO <variable>, …] [USING <value> [AS <name>], …]

Spark evaluates the text and the values, which may be its session's variables; the statement gets the values as literals
of their types. They have the names that AS gives them, variables their own; `?` takes them by their places, whatever
their names are. Those that no marker takes are left.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.settings import require_values_as_text
from bucketlake.spark.types import quoted, sql_type
from bucketlake.sql.query.given import Written, literal, marker_names, with_identifiers, with_values
from bucketlake.sql.query.named import passing_views
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.sql.text.names import LakeName
    from bucketlake.sql.text.parsed import Statement

_LEADS = frozenset(["SELECT", "VALUES", "TABLE", "WITH", "FROM"])
_INNER = frozenset(["SELECT", "WITH"])  # what a query among values begins with
_CHANGES = frozenset(["INSERT", "MERGE", "UPDATE", "DELETE"])
_PLAIN = ("void", "boolean", "int", "string", "double", "binary", "date")  # what their literals are by themselves
# Others by a literal that is cast.
_CAST = (T.ByteType, T.ShortType, T.LongType, T.FloatType, T.TimestampType, T.DecimalType, T.DayTimeIntervalType)
_SHOWN = (T.YearMonthIntervalType, T.CalendarIntervalType)  # Python has no such values: Spark says them as text


@dataclass(frozen=True, slots=True)
class _Immediate:
    """`text`, `values`: expressions, in Spark's SQL; `names`: theirs, None where one has none; `into`: variables."""

    text: str
    into: tuple[tuple[str, ...], ...]
    values: tuple[str, ...]
    names: tuple[str | None, ...]

    def run(self, lake: Lake, name: LakeName) -> DataFrame | None:
        text, *values = self._evaluated(lake)
        if not isinstance(text, str):
            raise InvalidError("EXECUTE IMMEDIATE: the statement is NULL, or not text", text=self.text)
        words = tokenize(text)
        first = words[0].value.upper() if words else ""
        if first == "EXECUTE":
            raise InvalidError("EXECUTE IMMEDIATE within EXECUTE IMMEDIATE", remedy="run the inner statement")
        text, given = with_identifiers(text, self._taken(text, values))
        require_values_as_text(lake.spark, given)
        text = with_values(text, given)
        if not self.into:
            return lake.sql(text)
        if not is_query(text):
            raise InvalidError("EXECUTE IMMEDIATE: INTO takes the row of a query", statement=text)
        self._set(lake, lake.sql(text))
        return None

    def _taken(self, text: str, values: Sequence[Any]) -> Any:
        """The values that the markers of the statement take, by name or by place."""
        names = marker_names(text)
        places = sum(token.kind == "sign" and token.value == "?" for token in tokenize(text))
        if names and places:
            raise InvalidError("EXECUTE IMMEDIATE: markers :name and ? in one statement", remedy="use one kind")
        if not names:
            return values[:places]
        if None in self.names:
            remedy = "write USING value AS name"
            raise InvalidError("EXECUTE IMMEDIATE: a value without a name", markers=names, remedy=remedy)
        if len(set(zip(self.names, self.values, strict=True))) > len(set(self.names)):
            raise InvalidError("EXECUTE IMMEDIATE: a name is given twice", names=list(self.names))
        return {name: value for name, value in zip(self.names, values, strict=True) if name in names}

    def _evaluated(self, lake: Lake) -> list[Any]:
        """The text and the values, as Python has them or, where that would change their type, as SQL writes them."""
        for value in self.values:
            _refuse_subquery(value)
        columns = ", ".join(f"({source}) AS c{at}" for at, source in enumerate((self.text, *self.values)))
        frame = lake.spark.sql(f"SELECT {columns}")
        kinds = [item.dataType for item in frame.schema]
        for kind in kinds:
            _require_values(kind)
        if any(isinstance(kind, _SHOWN) for kind in kinds):
            named = [(F.col(f"c{at}"), kind) for at, kind in enumerate(kinds)]
            frame = frame.select(*[each.cast("string") if isinstance(kind, _SHOWN) else each for each, kind in named])
        text, *values = frame.collect()[0]
        return [text, *(_typed(value, kind) for value, kind in zip(values, kinds[1:], strict=True))]

    def _set(self, lake: Lake, found: DataFrame) -> None:
        view = f"immediate_{lake.catalog.env.clock.new_uuid().replace('-', '')}"
        with passing_views(lake.spark) as views:
            views.append(view)
            found.createTempView(view)
            variables = ", ".join(".".join(map(quoted, parts)) for parts in self.into)
            lake.spark.sql(f"SET VARIABLE ({variables}) = (SELECT * FROM {view})")


def _typed(value: Any, kind: T.DataType) -> Any:
    """A value as Python has it, or as SQL writes it with its type."""
    told = sql_type(kind)
    if told in _PLAIN and (value is not None or told == "void"):
        return value
    if told == "timestamp_ntz" and isinstance(value, dt.datetime):
        return Written(f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'")
    if isinstance(value, dt.time):
        return value  # the type is no word of every session's SQL
    if value is None or isinstance(kind, _CAST):
        return Written(f"CAST({literal(value, told)} AS {told})")
    if isinstance(kind, T.YearMonthIntervalType) and isinstance(value, str):
        return Written(value)
    if isinstance(kind, T.CalendarIntervalType) and isinstance(value, str):
        return Written(f"CAST({literal(value, told)} AS {told})")
    return Written(f"CAST({_built(value, kind)} AS {told})")


def _refuse_subquery(value: str) -> None:
    """StatementError as Spark's own for a value with a query, over whatever tables."""
    words = [token.value.upper() for token in tokenize(value)]
    if any(word == "(" and behind in _INNER for word, behind in pairwise(words)):
        told = "A query parameter contains unsupported expression. Parameters can either be variables or literals."
        what = f"[UNSUPPORTED_EXPR_FOR_PARAMETER] {told} Invalid expression: [{value}]"
        raise InvalidError(what, remedy="SET VARIABLE v = (SELECT …) first, and USING v")


def _require_values(kind: T.DataType, within: bool = False) -> None:
    """UnsupportedError for types of whose values SQL or Python has none."""
    if isinstance(kind, T.ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, T.MapType):
        parts = [kind.keyType, kind.valueType]
    else:
        parts = [item.dataType for item in kind] if isinstance(kind, T.StructType) else []
    for part in parts:
        _require_values(part, within=True)
    told = kind.simpleString()
    known = parts or isinstance(kind, _CAST) or told in (*_PLAIN, "timestamp_ntz") or told.startswith("time(")
    if not known and (within or not isinstance(kind, _SHOWN)):
        raise UnsupportedError(f"EXECUTE IMMEDIATE: a value of type {told}", remedy="write it in the statement")


def _built(value: Any, kind: Any) -> str:
    """A nested value, of items that have their types."""
    if isinstance(kind, T.ArrayType):
        items, maker = [(item, kind.elementType) for item in value], "array"
    elif isinstance(kind, T.MapType):
        both = [((key, kind.keyType), (item, kind.valueType)) for key, item in value.items()]
        items, maker = [one for pair in both for one in pair], "map"
    else:
        items, maker = [(item, kind[at].dataType) for at, item in enumerate(value)], "struct"
    return f"{maker}({', '.join(literal(_typed(item, own), maker) for item, own in items)})"


def is_query(text: str) -> bool:
    """Whether a text is a query, which no row is written by."""
    depth = 0
    words = []
    for token in tokenize(text):
        if token.kind == "sign":
            depth += (token.value == "(") - (token.value == ")")
        elif token.kind == "word" and depth == 0:
            words.append(token.value.upper())
    return text.lstrip()[:1] == "(" or (not _LEADS.isdisjoint(words[:1]) and not _CHANGES.intersection(words))


def execute(cursor: Cursor) -> Statement | None:
    """See above; None for what does not go on with IMMEDIATE."""
    cursor.expect("EXECUTE")
    if not cursor.accept("IMMEDIATE"):
        return None
    text = cursor.expression("INTO", "USING")
    into = tuple(cursor.listed(cursor.name)) if cursor.accept("INTO") else ()
    values: list[str] = []
    names: list[str | None] = []
    if cursor.accept("USING"):
        bracketed = cursor.sees("(") and _closes_last(cursor)
        cursor.at += bracketed
        while True:
            values.append(cursor.expression("AS", ",", ")"))
            names.append(cursor.identifier() if cursor.accept("AS") else _variable(values[-1]))
            if not cursor.accept(","):
                break
        if bracketed:
            cursor.expect(")")
    return _Immediate(text, into, tuple(values), tuple(names))


def _variable(value: str) -> str | None:
    """The name of the variable that a value is; None for other expressions."""
    cursor = Cursor(value)
    try:
        name = cursor.name()[-1]
    except InvalidError:
        return None
    return name if cursor.done else None


def _closes_last(cursor: Cursor) -> bool:
    """Whether the bracket that opens here closes at the statement's end: it is about all values, where it is not a
    query's own."""
    if cursor.tokens[cursor.at + 1].value.upper() in _INNER:
        return False
    depth = 0
    for token in cursor.tokens[cursor.at :]:
        depth += (token.value == "(") - (token.value == ")") if token.kind == "sign" else 0
        if depth == 0:
            return token is cursor.tokens[-1]
    return False
