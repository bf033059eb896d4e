"""CALL sys.<procedure>(…): arguments by place or by name, as Spark's and as Flink's procedures take them.

    call     := CALL [catalog.] sys . name ( [argument {, argument}] )
    argument := [name =>] literal            name: bare or in backticks; '' and NULL mean absent

Spec: docs/sql/procedures.md
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.session import CATALOG_NAMES
from bucketlake.sql.procedures.catalogue import PROCEDURES, find_procedure
from bucketlake.sql.procedures.registry import PAIRS, Argument, Arguments, Procedure
from bucketlake.sql.query import query
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.tokens import blank, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


_SYS = "sys"  # the database of procedures, in any case, as their names are


@dataclass(frozen=True, slots=True)
class Call:
    """A procedure and what it is called with."""

    procedure: Procedure
    arguments: Arguments

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """Its rows."""
        assert self.procedure.run is not None
        rows = self.procedure.run(lake, self.arguments)
        return lake.spark.createDataFrame(list(rows), self.procedure.columns)


def parse(cursor: Cursor) -> Statement | None:
    """A call of a procedure of the lake, its arguments checked; procedures of other catalogs are Spark's.

    Errors: InvalidError naming what there is, for an unknown procedure or argument; UnsupportedError for procedures of
    Paimon that are not there yet.
    """
    cursor.expect("CALL")
    name = cursor.name()
    if len(name) == 1 and name[0].lower() in PROCEDURES:
        cursor.rest()
        return _Unqualified(cursor.text, name[0].lower())
    if len(name) not in (2, 3) or name[-2].lower() != _SYS:
        return None
    if len(name) == 3 and name[0].lower() not in CATALOG_NAMES:
        cursor.rest()
        return _OfCatalog(cursor.text, name[0])
    procedure = find_procedure(name[-1])
    given = _arguments(cursor)
    if procedure.run is None:
        raise UnsupportedError(f"procedure sys.{procedure.name} is not supported", reason=procedure.missing)
    return Call(procedure, _bound(procedure, given))


@dataclass(frozen=True, slots=True)
class _OfCatalog:
    """A call of a procedure of a catalog by a name that only the lake knows, or that is Spark's."""

    text: str
    catalog: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame | None:
        """Read and run as one without the catalog's name, where that is the lake's; else by Spark."""
        if self.catalog.lower() not in lake.catalog_names:
            return _by_spark(lake, self.text, "no catalog of this name has procedures", catalog=self.catalog)
        _, catalog, dot = tokenize(self.text)[:3]
        cursor = Cursor(blank(self.text, [(catalog.start, dot.end)]))
        found = parse(cursor)
        cursor.end()
        return None if found is None else found.run(lake, name)


@dataclass(frozen=True, slots=True)
class _Unqualified:
    """A call by the bare name of a procedure of the lake: Spark's, where Spark has one of this name."""

    text: str
    procedure: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """Run by Spark. InvalidError where it knows none."""
        return _by_spark(lake, self.text, "procedures of the lake are in sys", procedure=self.procedure)


def _by_spark(lake: Lake, text: str, told: str, **place: str) -> DataFrame:
    """A call run by Spark; InvalidError with what is `told`, and how the lake's are called, where it knows none."""
    try:
        return query.run(lake, text)
    except AnalysisException as error:
        condition = error.getCondition() or ""  # Spark 4.1 speaks of procedures, later ones of routines
        if "ROUTINE" not in condition and "PROCEDURE" not in condition:
            raise
        remedy = f"CALL {_SYS}.{place.get('procedure', 'compact')}(…)"
        raise InvalidError(told, **place, remedy=remedy) from error


# ---------------------------------------------------------------------------------------------- arguments


def _arguments(cursor: Cursor) -> list[tuple[str | None, str | None]]:
    """(name or None, value or None for NULL) of every argument, in order."""
    found: list[tuple[str | None, str | None]] = []

    def argument() -> None:
        name = None
        if _names_an_argument(cursor):
            name = cursor.identifier().lower()
            cursor.expect("=>")
        elif (sign := cursor.peek(1)) is not None and sign.value == "=":
            cursor.fail("an argument is named by =>, not by =", "write name => value")
        elif found and found[-1][0] is not None:
            cursor.fail("a positional argument after a named one", "name this one too, or put it first")
        found.append((name, _value(cursor)))

    cursor.bracketed(argument, empty=True)
    return found


def _names_an_argument(cursor: Cursor) -> bool:
    after = cursor.peek(1)
    return after is not None and after.value == "=>"


def _value(cursor: Cursor) -> str | None:
    token = cursor.peek()
    if token is not None and token.is_word("NULL"):
        cursor.next()
        return None
    if token is not None and token.kind == "quoted":
        cursor.fail("expected a value; texts stand in single quotes")
    if cursor.sees("CAST", "("):
        return _cast(cursor)
    if cursor.accept("MAP"):
        texts = cursor.bracketed(cursor.literal, empty=True)
        if len(texts) % 2:
            cursor.fail("a map's last key has no value", "write map('key', 'value')")
        return PAIRS.join(f"{key}={value}" for key, value in zip(texts[::2], texts[1::2], strict=False))
    text = cursor.literal()
    last = cursor.tokens[cursor.at - 1]
    while last.kind == "number" and (more := cursor.peek()) is not None and more.start == last.start:
        cursor.next()  # `3L` is cut into a number and the cast that it stands for
    while token is not None and token.kind == "string" and (follows := cursor.peek()) is not None:
        if follows.kind != "string":
            break
        text += cursor.string()  # literals beside each other are one
    return text


def _cast(cursor: Cursor) -> str | None:
    """The value of `CAST(value AS type)`, as Flink wants NULL and numbers to be written: one that is of the type."""
    cursor.expect("CAST", "(")
    value = _value(cursor)
    cursor.expect("AS")
    kind = cursor.identifier().upper()
    if value is not None and kind != "STRING" and not (kind in ("INT", "BIGINT") and _WHOLE.fullmatch(value)):
        cursor.fail("a cast that would change the value", "write the value as it is")
    cursor.expect(")")
    return value


def _bound(procedure: Procedure, given: list[tuple[str | None, str | None]]) -> Arguments:
    """The arguments by name; positional ones in Spark's order where that makes sense, else in Flink's."""
    orders = [procedure.spark or tuple(argument.name for argument in procedure.arguments)]
    orders += [procedure.flink] if procedure.flink else []
    errors: list[InvalidError] = []
    for order in orders if any(key is None for key, _ in given) else orders[:1]:
        try:
            found = _by_name(procedure, order, given)
            procedure.check(found)
        except InvalidError as error:
            errors.append(error)
        else:
            return found
    raise errors[0]


def _by_name(procedure: Procedure, order: tuple[str, ...], given: list[tuple[str | None, str | None]]) -> Arguments:
    found: dict[str, str] = {}
    seen: set[str] = set()
    parameters = [argument.name for argument in procedure.arguments]
    by_place = sum(key is None for key, _ in given)  # they come first; how many are named, their names say
    if by_place > len(order):
        raise InvalidError(f"too many arguments for sys.{procedure.name}", given=len(given), parameters=list(order))
    for place, (key, value) in enumerate(given):
        argument = procedure.argument(order[place] if key is None else key)
        if argument is None:
            near = get_close_matches(key or "", parameters, 1)
            raise InvalidError(
                f"sys.{procedure.name} has no such argument",
                argument=key,
                parameters=parameters,
                remedy=f"did you mean {near[0]}?" if near else "use these",
            )
        if argument.name in seen:
            raise InvalidError(f"sys.{procedure.name}: argument given twice", argument=argument.name)
        seen.add(argument.name)
        if value is not None and value.strip():
            found[argument.name] = _checked(argument, value)
    missing = [name for name in procedure.required if name not in found]
    if missing:
        raise InvalidError(f"sys.{procedure.name} needs arguments", missing=missing, parameters=parameters)
    return found


_WHOLE = re.compile(r"([+-]?[0-9]{1,19})[lLsSyY]?")
_LARGEST = {"int": 2**31 - 1, "bigint": 2**63 - 1}


def _checked(argument: Argument, value: str) -> str:
    """A value as its parameter's kind writes it; InvalidError where it is of another."""
    text = value.strip()
    if argument.kind in _LARGEST:
        number = _WHOLE.fullmatch(text)
        if number is None:
            raise InvalidError("not a whole number", argument=argument.name, value=value)
        if not -_LARGEST[argument.kind] - 1 <= int(number[1]) <= _LARGEST[argument.kind]:
            raise InvalidError("the number is out of range", argument=argument.name, value=value, kind=argument.kind)
        return str(int(number[1]))
    if argument.kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise InvalidError("neither true nor false", argument=argument.name, value=value)
        return text.lower()
    return value if argument.kind == "map" else value.replace(PAIRS, ",")
