"""CALL sys.create_branch, sys.delete_branch, sys.rename_branch, sys.fast_forward, sys.merge_branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.sql.procedures.arguments import flag, table_of
from bucketlake.sql.procedures.registry import DONE, TABLE, Argument, Arguments, Procedure, Rows
from bucketlake.sql.tables.tags import listed_names

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def _create(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    table.create_branch(given["branch"], given.get("tag"), if_not_exists=flag(given, "ignoreIfExists"))
    return DONE


def _delete(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    table.delete_branch(*listed_names(given["branch"], table.branches()))
    return DONE


def _rename(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).rename_branch(given["from_branch"], given["to_branch"])
    return DONE


def _fast_forward(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).fast_forward(given["branch"])
    return DONE


def _merge(lake: Lake, given: Arguments) -> Rows:
    table_of(lake, given).merge_branch(given["source_branch"], given.get("target_branch", "main"))
    return DONE


PROCEDURES = (
    Procedure(
        "create_branch",
        "Creates a branch, empty or from a tag.",
        (
            TABLE,
            Argument("branch", "the new branch's name", required=True),
            Argument("tag", "the tag that it begins with"),
            Argument("ignoreIfExists", "do nothing if there is one of this name", "boolean", default="false"),
        ),
        _create,
        check=lambda given: _check_flags(given, "ignoreIfExists"),
    ),
    Procedure(
        "delete_branch",
        "Deletes branches. Files that only they had become orphans.",
        (TABLE, Argument("branch", "the branches' names, separated by commas", required=True)),
        _delete,
    ),
    Procedure(
        "rename_branch",
        "Renames a branch.",
        (
            TABLE,
            Argument("from_branch", "its name", required=True),
            Argument("to_branch", "the new name, which must be free", required=True),
        ),
        _rename,
    ),
    Procedure(
        "fast_forward",
        "Replaces the table's history by the branch's, from the branch's first snapshot on.",
        (TABLE, Argument("branch", "the branch", required=True)),
        _fast_forward,
    ),
    Procedure(
        "merge_branch",
        "Appends a branch's files to another branch of an append table.",
        (
            TABLE,
            Argument("source_branch", "the branch whose files are taken", required=True),
            Argument("target_branch", "the branch that they are appended to", default="main"),
        ),
        _merge,
    ),
)


def _check_flags(given: Arguments, *names: str) -> None:
    for name in names:
        flag(given, name)
