"""CALL sys.alter_view_dialect: a view's text for one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.catalogs.model import DialectChange
from bucketlake.errors import InvalidError
from bucketlake.sql.procedures.arguments import table_name
from bucketlake.sql.procedures.registry import DONE, Argument, Arguments, Procedure, Rows
from bucketlake.sql.query.views import DIALECT

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_ACTIONS = ("add", "update", "drop")


def _change(given: Arguments) -> DialectChange:
    action, query = given["action"], given.get("query")
    if action not in _ACTIONS:
        raise InvalidError(f"Unsupported action: {action}", remedy=f"say one of {', '.join(_ACTIONS)}")
    if action != "drop" and not (query or "").strip():
        raise InvalidError(f"query is required for {action} action.")
    return DialectChange(action, given.get("engine", DIALECT).strip() or DIALECT, None if action == "drop" else query)


def _alter(lake: Lake, given: Arguments) -> Rows:
    lake.catalog.change_view(table_name(lake, given["view"]), _change(given))
    return DONE


def _check(given: Arguments) -> None:
    _change(given)


PROCEDURES = (
    Procedure(
        "alter_view_dialect",
        "Changes a persistent view's text for one engine.",
        (
            Argument("view", "the view", required=True),
            Argument("action", "add, update or drop", required=True),
            Argument("engine", "the engine that reads the text", default=DIALECT),
            Argument("query", "the text; none for drop"),
        ),
        _alter,
        check=_check,
    ),
)
