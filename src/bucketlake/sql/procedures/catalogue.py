"""All procedures by name: those that run, and those that are known and do not."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.sql.procedures import (
    branches,
    buckets,
    clone,
    compact,
    compact_database,
    expiry,
    files,
    health,
    indexes,
    later,
    merging,
    migrate,
    repair,
    rewrite,
    rollback,
    tags,
    upkeep,
    views,
)
from bucketlake.sql.procedures.registry import Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_LISTS = "procedure string, arguments string, description string, state string"
_ROOMS = (
    *(compact, compact_database, buckets, expiry, files, indexes, upkeep, tags, branches, rollback),
    *(health, migrate, clone, repair, rewrite, merging, views, later),
)


def find_procedure(name: str) -> Procedure:
    """The procedure of a name, built or not; InvalidError suggests the nearest."""
    found = PROCEDURES.get(name.strip().lower().removeprefix("sys."))
    if found is not None:
        return found
    near = get_close_matches(name.lower(), PROCEDURES, 1)
    remedy = f"did you mean sys.{near[0]}? " if near else ""
    raise InvalidError("no such procedure", procedure=f"sys.{name}", remedy=f"{remedy}CALL sys.help() lists them")


def _help(lake: Lake, given: Arguments) -> Rows:
    """All procedures; of one its parameters, in the same columns."""
    if "procedure" not in given:
        return [(one.name, signature(one), one.doc, state(one)) for one in PROCEDURES.values()]
    found = find_procedure(given["procedure"])
    return [
        (found.name, signature(found), found.doc, state(found)),
        *((f"  {one.name}", kind_of(one), one.doc, need_of(one)) for one in found.arguments),
    ]


def signature(procedure: Procedure) -> str:
    """The parameters in their order, those that may be left out in brackets."""
    return ", ".join(one.name if one.required else f"[{one.name}]" for one in procedure.arguments)


def kind_of(argument: Argument) -> str:
    """A parameter's type, in SQL's words."""
    return argument.kind


def need_of(argument: Argument) -> str:
    """Whether a parameter is needed, or what holds without it."""
    if argument.required:
        return "required"
    return f"default: {argument.default}" if argument.default is not None else "optional"


def state(procedure: Procedure) -> str:
    """Whether a procedure runs here, and why not."""
    return "runs" if procedure.run is not None else f"not built: {procedure.missing}"


_HELP = Procedure(
    "help",
    "Lists all procedures, or the parameters of one.",
    (Argument("procedure", "the procedure"),),
    _help,
    _LISTS,
    engines="",
)
PROCEDURES: dict[str, Procedure] = {
    one.name: one for one in sorted((*(p for room in _ROOMS for p in room.PROCEDURES), _HELP), key=lambda one: one.name)
}
