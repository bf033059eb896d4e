"""CALL sys.<procedure>(…): arguments by place or by name, as Spark's and as Flink's procedures take them.

    call     := CALL [catalog.] sys . name ( [argument {, argument}] )
    argument := [name =>] literal            name: bare or in backticks; '' and NULL mean absent

Spec: docs/procedures.md
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.options.options import parse_duration
from bucketlake.sql.procedures import buckets, expiry
from bucketlake.sql.procedures.arguments import Arguments, parse_options, table_name
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.text import Cursor
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

Run = Callable[["Lake", Arguments], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Procedure:
    """`spark`, `flink`: parameters in the engines' orders (Flink's where it differs); `required`: these must be given.
    `check` raises InvalidError for arguments that cannot be meant; `run` does it."""

    spark: tuple[str, ...]
    run: Run
    check: Callable[[Arguments], None]
    flink: tuple[str, ...] = ()
    required: tuple[str, ...] = ("table",)

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters, each once."""
        return tuple(dict.fromkeys((*self.spark, *self.flink)))


@dataclass(frozen=True, slots=True)
class _Call:
    procedure: Procedure
    arguments: Arguments

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return self.procedure.run(lake, self.arguments)


def parse(cursor: Cursor) -> Statement | None:
    """A call of a procedure of the lake, its arguments checked; procedures of other catalogs are Spark's.

    Errors: InvalidError naming what there is, for an unknown procedure or argument; UnsupportedError for procedures of
    Paimon that are not there yet.
    """
    cursor.expect("CALL")
    name = cursor.name()
    if name[-2:-1] != ("sys",) or len(name) > 3 or (len(name) == 3 and name[0].lower() not in names.CATALOG_NAMES):
        return None
    procedure = _procedure(name[-1].lower())
    return _Call(procedure, _bound(name[-1], procedure, _arguments(cursor)))


def _procedure(name: str) -> Procedure:
    found = PROCEDURES.get(name)
    if found is not None:
        return found
    if name in LATER:
        raise UnsupportedError(
            f"procedure sys.{name} is not supported yet", supported=sorted(PROCEDURES), remedy="use one of these"
        )
    near = get_close_matches(name, [*PROCEDURES, *LATER], 1)
    raise InvalidError(
        "no such procedure",
        procedure=f"sys.{name}",
        procedures=sorted(PROCEDURES),
        remedy=f"did you mean sys.{near[0]}?" if near else "call one of these",
    )


# ---------------------------------------------------------------------------------------------- arguments


def _arguments(cursor: Cursor) -> list[tuple[str | None, str | None]]:
    """(name or None, value or None for NULL) of every argument, in order."""
    found: list[tuple[str | None, str | None]] = []

    def argument() -> None:
        name = None
        if _names_an_argument(cursor):
            name = cursor.identifier().lower()
            cursor.expect("=>")
        elif found and found[-1][0] is not None:
            cursor.fail("a positional argument after a named one")
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
    return cursor.literal()


def _bound(name: str, procedure: Procedure, given: list[tuple[str | None, str | None]]) -> Arguments:
    """The arguments by name; positional ones in Spark's order where that makes sense, else in Flink's."""
    orders = [procedure.spark, *([procedure.flink] if procedure.flink else [])]
    errors: list[InvalidError] = []
    for order in orders if any(key is None for key, _ in given) else orders[:1]:
        try:
            found = _by_name(name, procedure, order, given)
            procedure.check(found)
        except InvalidError as error:
            errors.append(error)
        else:
            return found
    raise errors[0]


def _by_name(
    name: str, procedure: Procedure, order: tuple[str, ...], given: list[tuple[str | None, str | None]]
) -> Arguments:
    found: dict[str, str] = {}
    seen: set[str] = set()
    if len(given) > len(order):
        raise InvalidError(f"too many arguments for sys.{name}", given=len(given), parameters=list(order))
    for place, (key, value) in enumerate(given):
        key = order[place] if key is None else key
        if key not in procedure.names:
            near = get_close_matches(key, procedure.names, 1)
            raise InvalidError(
                f"sys.{name} has no such argument",
                argument=key,
                parameters=list(procedure.names),
                remedy=f"did you mean {near[0]}?" if near else "use these",
            )
        if key in seen:
            raise InvalidError(f"sys.{name}: argument given twice", argument=key)
        seen.add(key)
        if value is not None and value.strip():
            found[key] = value
    missing = [key for key in procedure.required if key not in found]
    if missing:
        raise InvalidError(f"sys.{name} needs arguments", missing=missing, parameters=list(procedure.names))
    return found


# ---------------------------------------------------------------------------------------------- compact

_ORDERS = ("order", "zorder", "hilbert")


def _check_compact(given: Arguments) -> None:
    strategy, order = given.get("compact_strategy", "full").lower(), given.get("order_strategy", "none").lower()
    if strategy not in ("full", "minor"):
        raise InvalidError(f"The compact strategy only supports 'full' or 'minor', but '{strategy}' is configured.")
    if order not in ("none", *_ORDERS):
        raise InvalidError("unknown order_strategy", order_strategy=order, known=["none", *_ORDERS])
    if order == "none" and "order_by" in given:
        raise InvalidError('order_strategy "none" cannot work with order_by columns.')
    if order != "none" and "partition_idle_time" in given:
        raise InvalidError("sort compact do not support 'partition_idle_time'.")
    if "partitions" in given and "where" in given:
        raise InvalidError("partitions and where cannot be used together.")
    if "partition_idle_time" in given:
        parse_duration(given["partition_idle_time"])
    parse_options(given.get("options", ""))


def _compact(lake: Lake, given: Arguments) -> DataFrame:
    """One row: whether it was done."""
    order = given.get("order_strategy", "none").lower()
    if order != "none":
        raise UnsupportedError(f"sys.compact with order_strategy '{order}' is not supported yet", table=given["table"])
    lake.table(table_name(lake, given["table"])).with_options(parse_options(given.get("options", ""))).compact(
        partitions=given.get("partitions"),
        where=given.get("where"),
        full=given.get("compact_strategy", "full").lower() == "full",
        idle=given.get("partition_idle_time"),
    )
    return lake.spark.createDataFrame([(True,)], "result boolean")


PROCEDURES: dict[str, Procedure] = {
    "compact": Procedure(
        spark=(
            *("table", "partitions", "compact_strategy", "order_strategy", "order_by", "where", "options"),
            "partition_idle_time",
        ),
        flink=(
            *("table", "partitions", "order_strategy", "order_by", "options", "where", "partition_idle_time"),
            "compact_strategy",
        ),
        run=_compact,
        check=_check_compact,
    ),
    "expire_changelogs": Procedure(spark=expiry.CHANGELOGS, run=expiry.expire_changelogs, check=expiry.check),
    "expire_snapshots": Procedure(spark=expiry.SNAPSHOTS, run=expiry.expire_snapshots, check=expiry.check),
    "remove_orphan_files": Procedure(spark=expiry.ORPHANS, run=expiry.remove_orphan_files, check=expiry.check),
    "rescale": Procedure(
        spark=("table", "bucket_num", "partitions", "where"),
        flink=("table", "bucket_num", "partition", "scan_parallelism", "sink_parallelism"),
        run=buckets.rescale,
        check=buckets.check_rescale,
    ),
    "advise_buckets": Procedure(spark=("table",), run=buckets.advise, check=lambda given: None),
}
# Paimon's procedures that are not there yet; one moves up with its issue.
LATER = frozenset(
    (
        *("alter_column_default_value", "alter_function", "alter_view_dialect", "clear_consumers", "clone"),
        *("compact_chain_table", "compact_database", "compact_manifest", "copy", "create_branch", "create_function"),
        *("create_global_index", "create_tag", "create_tag_from_timestamp", "create_tag_from_watermark"),
        *("data_evolution_merge_into", "delete_branch", "delete_tag", "drop_function", "drop_global_index"),
        *(
            "drop_partition",
            "expire_partitions",
            "expire_tags",
            "fast_forward",
        ),
        *("mark_partition_done", "merge_branch", "merge_into", "migrate_database", "migrate_table", "purge_files"),
        *("query_service", "remove_unexisting_files", "remove_unexisting_manifests"),
        *("rename_branch", "rename_tag", "repair", "repair_earliest_snapshot", "replace_tag"),
        *("reset_consumer", "rewrite_file_index", "rollback", "rollback_to", "rollback_to_timestamp"),
        *("rollback_to_watermark", "trigger_tag_automatic_creation"),
    )
)
