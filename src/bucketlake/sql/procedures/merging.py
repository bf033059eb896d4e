"""CALL sys.merge_into and sys.data_evolution_merge_into: Flink's way to say MERGE, and sys.alter_column_default_value.

The texts are read one by one, each as one expression, and given to the engine of MERGE: none of them becomes part of a
statement.

Spec: docs/sql/procedures.md#merge_into
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.change import UpdateColumnDefault
from bucketlake.spark.types import quoted
from bucketlake.sql.procedures.arguments import table_of, whole_number
from bucketlake.sql.procedures.registry import TABLE, Argument, Arguments, Procedure, Rows
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.merge.builder import MergeBuilder
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_SUCCESS: Rows = [("Success",)]
_STAR = "*"
_UPSERT, _SETTING, _DELETE = "matched_upsert_condition", "matched_upsert_setting", "matched_delete_condition"
_INSERT, _VALUES = "not_matched_insert_condition", "not_matched_insert_values"
_LEFT_UPSERT, _LEFT_SETTING = "not_matched_by_source_upsert_condition", "not_matched_by_source_upsert_setting"
_LEFT_DELETE, _UPDATE_SET = "not_matched_by_source_delete_condition", "matched_update_set"


def settings(text: str, target: str) -> dict[str, str]:
    """`a = x, t.b = y` as column → expression; InvalidError for anything else, and for a column that is set twice.
    `target`: what may qualify the columns that are set."""
    cursor, found = Cursor(text), dict[str, str]()

    def pair() -> None:
        parts = cursor.name()
        parts = parts[1:] if len(parts) > 1 and parts[0].lower() == target.lower() else parts
        column = ".".join(map(quoted, parts))
        cursor.expect("=")
        if column in found:
            raise InvalidError("a column is set twice", column=column, text=text)
        found[column] = cursor.expression(",")

    cursor.listed(pair)
    cursor.end()
    return found


def expressions(text: str) -> list[str]:
    """`x, y + 1` as expressions; InvalidError for anything else."""
    cursor = Cursor(text)
    found = cursor.listed(lambda: cursor.expression(","))
    cursor.end()
    return found


# ---------------------------------------------------------------------------------------------- merge_into


def _check_merge(given: Arguments) -> None:
    for name, what in (("source_table", "source table"), ("merge_condition", "merge condition")):
        if name not in given:
            raise InvalidError(f"Must specify {what}.", argument=name)
    for condition, setting, action in (
        (_UPSERT, _SETTING, "matched-upsert"),
        (_INSERT, _VALUES, "not-matched-insert"),
        (_LEFT_UPSERT, _LEFT_SETTING, "not-matched-by-source-upsert"),
    ):
        if condition in given and setting not in given:
            raise InvalidError(f"{action} must set the '{setting}' argument")
    if not any(name in given for name in (_SETTING, _VALUES, _DELETE, _LEFT_SETTING, _LEFT_DELETE)):
        raise InvalidError("Must specify at least one merge action.")
    for setting, condition, delete in ((_SETTING, _UPSERT, _DELETE), (_LEFT_SETTING, _LEFT_UPSERT, _LEFT_DELETE)):
        if setting in given and delete in given and condition not in given:
            raise InvalidError(
                "If both an upsert and a delete action are present, their conditions must both be present too.",
                argument=condition,
            )
    if given.get(_LEFT_SETTING) == _STAR:
        raise InvalidError(f"The '*' cannot be used in {_LEFT_SETTING}")


def _merge_into(lake: Lake, given: Arguments) -> Rows:
    table, frame, alias = _sides(lake, given)
    engine = table.options.get("merge-engine")
    if not table.schema.primary_keys:
        raise UnsupportedError(
            "merge-into action doesn't support table with no primary keys defined.",
            table=table.name,
            remedy="the statement MERGE INTO does",
        )
    if engine not in ("deduplicate", "partial-update"):
        raise UnsupportedError(f"Merge engine {engine} can not support merge-into.", table=table.name)
    merge = table.merge(frame, given["merge_condition"], given.get("target_alias"), alias)
    own = [quoted(name) for name in table.schema.field_names]
    by_place = [f"{quoted(alias)}.{quoted(name)}" for name in frame.columns]
    if _SETTING in given:
        star = given[_SETTING].strip() == _STAR
        values = _paired(own, by_place, _SETTING) if star else settings(given[_SETTING], merge.target)
        merge = merge.whenMatched(given.get(_UPSERT)).update(values)
    if _DELETE in given:
        merge = merge.whenMatched(given[_DELETE]).delete()
    if _VALUES in given:
        star = given[_VALUES].strip() == _STAR
        found = by_place if star else expressions(given[_VALUES])
        merge = merge.whenNotMatched(given.get(_INSERT)).insert(_paired(own, found, _VALUES))
    if _LEFT_SETTING in given:
        merge = merge.whenNotMatchedBySource(given.get(_LEFT_UPSERT)).update(
            settings(given[_LEFT_SETTING], merge.target)
        )
    if _LEFT_DELETE in given:
        merge = merge.whenNotMatchedBySource(given[_LEFT_DELETE]).delete()
    return _done(merge)


def _paired(own: list[str], values: list[str], argument: str) -> dict[str, str]:
    """The table's columns with values by place, as Flink takes them."""
    if len(own) != len(values):
        raise InvalidError(
            f"The schema of result in action '{argument}' is invalid.", columns=len(values), expected=len(own)
        )
    return dict(zip(own, values, strict=True))


def _sides(lake: Lake, given: Arguments) -> tuple[LakeTable, DataFrame, str]:
    """The target, the source's rows after `source_sqls` were run, and the name that qualifies its columns."""
    target = lake.table(names.target(lake, names.parts_of(given["target_table"])).full)
    if "source_sqls" in given:
        lake.sql_script(given["source_sqls"])
    parts = names.parts_of(given["source_table"])
    return target, lake.sql(f"SELECT * FROM {'.'.join(map(quoted, parts))}"), parts[-1]


def _done(merge: MergeBuilder) -> Rows:
    merge.merge()
    return _SUCCESS


# ---------------------------------------------------------------------------------------------- columns alone


def _check_columns(given: Arguments) -> None:
    for name, what in (
        ("source_table", "source table"),
        ("merge_condition", "merge condition"),
        (_UPDATE_SET, "matched update set"),
    ):
        if name not in given:
            raise InvalidError(f"Must specify {what}.", argument=name)
    parallelism = whole_number(given, "sink_parallelism")
    if parallelism is not None and parallelism < 1:
        raise InvalidError("not a number of tasks", argument="sink_parallelism", value=parallelism)


def _merge_columns(lake: Lake, given: Arguments) -> Rows:
    table, frame, alias = _sides(lake, given)
    if not table.schema.data_evolution:
        raise UnsupportedError(
            "Only DataEvolutionTable supports data-evolution merge-into action.",
            table=table.name,
            remedy="the statement MERGE INTO changes other tables",
        )
    brought = [name for name in frame.columns if name.upper() != "_ROW_ID"]
    star = {quoted(name): f"{quoted(alias)}.{quoted(name)}" for name in brought}
    merge = table.merge(frame, given["merge_condition"], given.get("target_alias"), alias)
    values = star if given[_UPDATE_SET].strip() == _STAR else settings(given[_UPDATE_SET], merge.target)
    return _done(merge.whenMatched().update(values))


# ---------------------------------------------------------------------------------------------- defaults


def _alter_default(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    column = given["column"]
    if column not in table.schema.field_names and "." in column:
        raise UnsupportedError("defaults of members of ROW columns", column=column)
    lake.catalog.alter_table(table.name, UpdateColumnDefault((column,), given["default_value"]))
    return _SUCCESS


_TARGET = Argument("target_table", "the table", required=True)
_BOTH = (
    _TARGET,
    Argument("target_alias", "what qualifies the table's columns; by default its last name"),
    Argument("source_sqls", "statements that run first, separated by `;`: `CREATE TEMPORARY VIEW s AS …`"),
    Argument("source_table", "the source: a table or view; its last name qualifies its columns"),
    Argument("merge_condition", "which rows match"),
)

PROCEDURES = (
    Procedure(
        "alter_column_default_value",
        "Sets the default of a column, as the text that is stored: `abc`, `5`, `2024-01-01`.",
        (
            TABLE,
            Argument("column", "the column", required=True),
            Argument("default_value", "the text of the default", required=True),
        ),
        _alter_default,
        "result string",
        engines="Flink",
    ),
    Procedure(
        "data_evolution_merge_into",
        "Sets columns of the matching rows in a table with `data-evolution.enabled`, as a MERGE does.",
        (
            *_BOTH,
            Argument(_UPDATE_SET, "`a = s.x, b = s.y`, or `*`: the source's columns by name"),
            Argument("sink_parallelism", "without effect: tasks follow the data", "int"),
        ),
        _merge_columns,
        "result string",
        _check_columns,
        engines="Flink",
    ),
    Procedure(
        "merge_into",
        "Merges into a primary-key table, with Flink's arguments. Of an upsert and a delete, the upsert goes first.",
        (
            *_BOTH,
            Argument(_UPSERT, "of the rows that match, which are updated"),
            Argument(_SETTING, "`a = s.x, b = s.y`, or `*`: the source's columns by place"),
            Argument(_INSERT, "of the rows that only the source has, which are inserted"),
            Argument(_VALUES, "a value for each of the table's columns, or `*`: the source's columns by place"),
            Argument(_DELETE, "of the rows that match, which are deleted; `TRUE`: all"),
            Argument(_LEFT_UPSERT, "of the rows that only the table has, which are updated"),
            Argument(_LEFT_SETTING, "`a = x, b = y`"),
            Argument(_LEFT_DELETE, "of the rows that only the table has, which are deleted; `TRUE`: all"),
        ),
        _merge_into,
        "result string",
        _check_merge,
        engines="Flink",
    ),
)
