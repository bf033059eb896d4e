"""Computed columns: `dt=date_format(ts, yyyy-MM-dd)`, as text and taken apart.

Spec: docs/cdc.md#computed-columns
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bucketlake.errors import InvalidError, did_you_mean
from bucketlake.types.model import INT, STRING, DataType, Root
from bucketlake.types.parse import parse_type_text
from bucketlake.values import dataclass

PARTS = ("year", "month", "day", "hour", "minute", "second")
TEXTS = ("upper", "lower", "trim")
_ARGUMENTS = {  # beside the column: at least, at most
    **dict.fromkeys(PARTS, (0, 1)),
    "date_format": (1, 2),
    "substring": (1, 2),
    "truncate": (1, 1),
    **dict.fromkeys(TEXTS, (0, 0)),
    "cast": (0, 1),
    "now": (0, 0),
}
_WITHOUT_COLUMN = ("cast", "now")
PRECISIONS = ("0", "3", "6", "9")
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)


@dataclass(frozen=True, slots=True)
class Computed:
    """One computed column. `column`: what it is computed of, None for a constant or the time; `constant`: of a cast."""

    name: str
    function: str
    column: str | None
    arguments: tuple[str, ...] = ()
    constant: str | None = None

    def type_of(self, column: DataType | None) -> DataType:
        """Its type, computed of a column of this type (None: not known, so text)."""
        if self.function in PARTS:
            return INT
        if self.function == "cast":
            return parse_type_text(self.arguments[0], "flink") if self.arguments else STRING
        if self.function == "now":
            return DataType(Root.TIMESTAMP, precision=3)
        if self.function == "truncate" and column is not None:
            if column.root not in (*_WHOLE, Root.DECIMAL, Root.VARCHAR, Root.CHAR):
                raise InvalidError("truncate takes whole numbers, decimals and text", column=self.column)
            return column.with_nullable(True)
        return STRING

    @property
    def precision(self) -> int | None:
        """The unit that a time as a number has: 0 seconds, 3, 6, 9; None: not said."""
        place = 1 if self.function == "date_format" else 0
        return int(self.arguments[place]) if len(self.arguments) > place else None


def parse_computed(texts: Sequence[str], case_sensitive: bool = True) -> tuple[Computed, ...]:
    """The computed columns that texts `name=function(column, …)` say, each after those that it is computed of.

    Errors: InvalidError for what is no such text, an unknown function, wrong arguments, a circle, a name twice.
    """
    found: dict[str, Computed] = {}
    for text in texts:
        item = _parsed(text, case_sensitive)
        if item.name in found:
            raise InvalidError("a computed column is given twice", column=item.name)
        found[item.name] = item
    ordered: dict[str, Computed] = {}
    for item in found.values():
        _add_after_its_column(item, found, ordered, ())
    return tuple(ordered.values())


def _add_after_its_column(
    item: Computed, found: Mapping[str, Computed], ordered: dict[str, Computed], path: tuple[str, ...]
) -> None:
    if item.name in path:
        raise InvalidError("computed columns go in a circle", columns=[*path, item.name])
    if item.column is not None and item.column in found and item.column != item.name:
        _add_after_its_column(found[item.column], found, ordered, (*path, item.name))
    elif item.column == item.name:
        raise InvalidError("a column cannot be computed from itself", column=item.name)
    ordered.setdefault(item.name, item)


def _parsed(text: str, case_sensitive: bool) -> Computed:
    found = re.fullmatch(r"\s*([^=]+?)\s*=\s*([A-Za-z_]+)\s*\((.*)\)\s*", text, re.DOTALL)
    if found is None:
        raise InvalidError("not a computed column", text=text, remedy="write name=function(column, arguments)")
    name, function = found[1].strip("`"), found[2].lower()
    if function not in _ARGUMENTS:
        known = sorted(_ARGUMENTS)
        remedy = did_you_mean(function, known)
        raise InvalidError("no such function of computed columns", function=function, functions=known, remedy=remedy)
    inside = [part.strip() for part in found[3].split(",")] if found[3].strip() else []
    column = None if function in _WITHOUT_COLUMN else (inside.pop(0).strip("`") if inside else "")
    constant = None
    if function == "cast":
        constant, inside = _constant(found[3])
    least, most = _ARGUMENTS[function]
    if column == "" or (function == "cast" and constant is None) or not least <= len(inside) <= most:
        takes = f"{least} to {most}" + ("" if column is None else " beside the column")
        raise InvalidError("wrong number of arguments", computed=text.strip(), takes=takes)
    if not case_sensitive:
        name, column = name.lower(), None if column is None else column.lower()
    made = Computed(name, function, column, tuple(inside), constant)
    _check_arguments(made, text)
    return made


def _constant(inside: str) -> tuple[str | None, list[str]]:
    """The value of `cast(value, type)`, perhaps in quotes, and its type."""
    found = re.fullmatch(r"\s*(?:'((?:[^']|'')*)'|([^,]*?))\s*(?:,\s*(.+?))?\s*", inside, re.DOTALL)
    if found is None:
        return None, []
    value = found[1].replace("''", "'") if found[1] is not None else found[2]
    return value, [found[3]] if found[3] else []


def _check_arguments(item: Computed, text: str) -> None:
    given = item.arguments
    numbers = given if item.function in ("substring", "truncate") else ()
    if any(re.fullmatch(r"-?\d+", part) is None for part in numbers):
        raise InvalidError("not a whole number", computed=text.strip())
    if item.function == "substring":
        begin, end = int(given[0]), int(given[1]) if len(given) > 1 else None
        if begin < 0 or (end is not None and end <= begin):
            raise InvalidError("substring takes 0 <= begin < end", computed=text.strip())
    if item.function == "truncate" and int(given[0]) <= 0:
        raise InvalidError("truncate takes a width above 0", computed=text.strip())
    if item.function in (*PARTS, "date_format"):
        place = 1 if item.function == "date_format" else 0
        if len(given) > place and given[place] not in PRECISIONS:
            raise InvalidError("no such precision of a time", computed=text.strip(), precisions=list(PRECISIONS))
    if item.function == "date_format" and given and re.fullmatch(r"'[^']*'", given[0]):
        remedy = f"write it without quotes: date_format({item.column}, {given[0][1:-1]})"
        raise InvalidError("a format in quotes is the same text for every row", computed=text.strip(), remedy=remedy)
    if item.function == "cast" and given:
        parse_type_text(given[0], "flink")
