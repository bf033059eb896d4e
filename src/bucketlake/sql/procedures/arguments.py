"""Arguments of procedures as values: tables, options, numbers, flags.

Spec: docs/sql/procedures.md
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.scan.partition_choice import parse_specs
from bucketlake.sql.procedures.registry import PAIRS, Arguments
from bucketlake.sql.text import names

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


def table_of(lake: Lake, given: Arguments) -> LakeTable:
    """The table that the argument `table` names; InvalidError for a system table, which has nothing of its own."""
    table = lake.table(table_name(lake, given["table"]))
    if table.table.view is not None:
        raise InvalidError(f"Cannot call a procedure of system table '{table.table.name}', please use data table.")
    return table


def table_name(lake: Lake, text: str) -> str:
    """The full name of the lake table that a text names; NotFoundError, InvalidError."""
    return names.target(lake, names.parts_of(text)).full


def parse_options(text: str) -> dict[str, str]:
    """`k1=v1,k2=v2` as a dict; InvalidError for anything else."""
    found: dict[str, str] = {}
    for pair in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidError("not an option", text=pair, remedy="write key=value,key=value")
        _once(key.strip(), found)
        found[key.strip()] = value.strip()
    return found


def pairs_of(text: str) -> dict[str, str]:
    """An argument of the kind `map`; InvalidError for what is no `key=value`."""
    found: dict[str, str] = {}
    for pair in filter(None, text.split(PAIRS)):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidError("not an option", text=pair, remedy="write map('key', 'value')")
        _once(key.strip(), found)
        found[key.strip()] = value
    return found


def _once(key: str, found: Collection[str]) -> None:
    if key in found:
        raise InvalidError("an option is given twice", option=key, remedy="give one value")


def check_choice(given: Arguments) -> None:
    """InvalidError unless partitions are chosen in one way alone, by texts that can be read."""
    if "partitions" in given and "where" in given:
        raise InvalidError("partitions and where cannot be used together.")
    parse_specs(given.get("partitions", ""))


def whole_number(given: Arguments, name: str) -> int | None:
    """An argument as a whole number, None if it is absent; InvalidError for anything else."""
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text.strip().rstrip("lL"))
    except ValueError as error:
        raise InvalidError("not a whole number", argument=name, value=text) from error


def flag(given: Arguments, name: str) -> bool:
    """An argument as true or false, false if it is absent; InvalidError for anything else."""
    text = given.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidError("neither true nor false", argument=name, value=text)
    return text == "true"


def pattern(given: Arguments, name: str, usual: str) -> re.Pattern[str]:
    """An argument as a regular expression, `usual` where it is absent; InvalidError for anything else."""
    try:
        return re.compile(given.get(name, usual))
    except re.error as error:
        raise InvalidError("not a regular expression", argument=name, text=given[name], reason=str(error)) from error
