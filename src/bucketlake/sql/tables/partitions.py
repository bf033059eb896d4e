"""Partitions as statements name and show them: values that Spark casts, from and to text.

Spec: docs/sql/ddl.md#partitions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, did_you_mean
from bucketlake.ops.scan.fallback import shown_branches
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.retry import on_newest
from bucketlake.spark.conform import char_columns
from bucketlake.spark.read.partition_rows import PARTITION, frame_of_partitions
from bucketlake.spark.types import quoted, spark_type
from bucketlake.sql.text.names import own_spelling
from bucketlake.types.model import Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake
    from bucketlake.table import Table

Spec = Mapping[str, str | None]  # column -> text, None for NULL
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(1, 0x20)))


@dataclass(slots=True)
class Partition:
    """A partition with what its live files come to. `texts`: its values as Spark casts them, None for null."""

    stored: bytes
    texts: tuple[str | None, ...] = ()
    files: int = 0
    rows: int = 0
    size: int = 0
    newest: int = 0  # epoch milliseconds

    def shown(self, names: Sequence[str]) -> list[str]:
        """`dt=2024-01-01` of every column, escaped as in a path."""
        texts = ["null" if text is None else text for text in self.texts]
        return [f"{escaped(name)}={escaped(text)}" for name, text in zip(names, texts, strict=True)]

    @property
    def parameters(self) -> dict[str, int]:
        """Paimon's names for what the files come to."""
        return {
            "recordCount": self.rows,
            "fileSizeInBytes": self.size,
            "fileCount": self.files,
            "lastFileCreationTime": self.newest,
        }


def escaped(text: str) -> str:
    """A part of a partition's path as Spark writes it."""
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)


def require_partitioned(table: Table, spec: Spec) -> None:
    """InvalidError for a table without partitions. `spec`: what is said of them."""
    if not table.schema.partition_keys:
        raise InvalidError(
            f"The partition command is invalid. Table {table.name} is not partitioned.",
            remedy="leave PARTITION out" if spec else None,
        )


def resolved(table: Table, spec: Spec) -> dict[str, str | None]:
    """The spec with the columns' own spelling, in their order; NotFoundError for others."""
    require_partitioned(table, spec)
    keys = table.schema.partition_keys
    given = own_spelling(spec, keys)
    unknown = [name for name in given if name not in keys]
    if unknown:
        raise NotFoundError(
            f"[PARTITIONS_NOT_FOUND] The partition(s) {', '.join(map(quoted, unknown))} cannot be found in table "
            f"{table.name}.",
            partition_keys=list(keys),
            remedy=did_you_mean(unknown[0], keys) or "name partition columns only",
        )
    return {name: given[name] for name in keys if name in given}


def _invalid(table: Table, spec: Spec) -> InvalidError:
    shown = ", ".join(f"{name} = {'null' if value is None else repr(value)}" for name, value in spec.items())
    keys = ", ".join(table.schema.partition_keys)
    return InvalidError(
        f"Partition spec is invalid. The spec ({shown}) must match the partition spec ({keys}) defined in table "
        f"'{table.name}'",
    )


def require_full(table: Table, spec: Spec) -> dict[str, str | None]:
    """The resolved spec, InvalidError unless it names every partition column."""
    found = resolved(table, spec)
    if len(found) != len(table.schema.partition_keys):
        raise _invalid(table, spec)
    return found


def listed(lake: Lake, table: Table, spec: Spec) -> list[Partition]:
    """The partitions that have files and match a spec (not necessarily of all columns), sorted as they are shown."""
    require_partitioned(table, spec)
    spec = resolved(table, spec)
    require_values(lake, table, spec)
    chosen = _matching(lake, table, on_newest(table.store, lambda: _live(table)), spec)
    return sorted(chosen, key=lambda one: one.shown(table.schema.partition_keys))


def _live(table: Table) -> list[Partition]:
    found: dict[bytes, Partition] = {}
    shown = shown_branches(table.store, Selection(table.latest_snapshot()))
    only = [(store, snapshot, EntryFilter(partitions=some)) for store, snapshot, some in shown]
    for entry in (entry for store, snapshot, some in only for entry in live_entries(store, snapshot, some)):
        one = found.setdefault(entry.partition, Partition(entry.partition))
        one.files += 1
        one.rows += entry.file.row_count
        one.size += entry.file.file_size
        one.newest = max(one.newest, entry.file.creation_time or 0)
    return list(found.values())


def require_values(lake: Lake, table: Table, spec: Spec) -> None:
    """InvalidError for a resolved spec's value that Spark does not cast to its column's type: whether the table has
    partitions or not, such a spec names none."""
    given = [name for name, text in spec.items() if text is not None]
    wanted = {name: spark_type(table.schema.field(name).type) for name in given}
    if all(isinstance(kind, T.StringType) for kind in wanted.values()):
        return
    fits = [F.lit(spec[name]).try_cast(kind).isNotNull() for name, kind in wanted.items()]
    for name, fit in zip(given, lake.spark.sql("SELECT 1").select(*fits).collect()[0], strict=True):
        if not fit:
            raise InvalidError(
                "[CAST_INVALID_INPUT] the PARTITION value is not of its column's type",
                table=table.name,
                column=name,
                value=spec[name],
                type=wanted[name].simpleString(),
            )


def _matching(lake: Lake, table: Table, partitions: list[Partition], spec: Spec) -> list[Partition]:
    """Those that the spec means, texts filled in: Spark compares and casts, from a local relation and without a job."""
    if not partitions:
        return []
    fields = table.schema.partition_fields
    frame = char_columns(frame_of_partitions(lake.spark, table.store, [one.stored for one in partitions]), fields)
    asked = [(name, F.lit(text).try_cast(spark_type(table.schema.field(name).type))) for name, text in spec.items()]
    if asked:
        frame = frame.where(reduce(and_, [F.col(quoted(name)).eqNullSafe(value) for name, value in asked]))
    shown = [F.col(quoted(f.name)).cast("string").alias(str(i)) for i, f in enumerate(fields)]
    chosen = []
    for place, *texts in frame.select(PARTITION, *shown).collect():
        partitions[place].texts = tuple(texts)
        chosen.append(partitions[place])
    return chosen


def drop(lake: Lake, table: Table, specs: Iterable[Spec], if_exists: bool) -> None:
    """Drop partitions as one commit. Each spec names all columns, and such a partition must be there unless
    `if_exists`, or the first few: then all partitions below go, those included that are committed meanwhile."""
    wanted: list[dict[str, Any]] = []
    missing = []
    for given in specs:
        spec = resolved(table, given)
        keys = table.schema.partition_keys
        if tuple(spec) != keys[: len(spec)]:
            raise _invalid(table, given)
        found = listed(lake, table, spec)
        if not found and len(spec) == len(keys):
            missing.append(spec)
        wanted += _stored_specs(table, found, spec)
    if missing and not if_exists:
        raise not_found(table, missing)
    if wanted:
        table.drop_partitions(wanted)


def truncate(lake: Lake, table: Table, spec: Spec) -> None:
    """Remove the rows of the partitions that match."""
    own = resolved(table, spec)
    if all(table.schema.field(name).type.root is Root.VARCHAR for name in own):
        table.drop_partitions([own])  # texts are compared as they are
        return
    wanted = _stored_specs(table, listed(lake, table, spec), resolved(table, spec))
    if wanted:
        table.drop_partitions(wanted)


def _stored_specs(table: Table, found: Iterable[Partition], spec: Spec) -> list[dict[str, Any]]:
    """The specs in the table's own texts, each once."""
    default = table.options.get("partition.default-name")
    own = []
    for one in found:
        texts = table.store.paths.partition_texts(one.stored)  # null and blank alike have the default name
        own.append({name: given if texts[name] == default else texts[name] for name, given in spec.items()})
    return list({tuple(one.items()): one for one in own}.values())


def not_found(table: Table, specs: Iterable[Spec]) -> NotFoundError:
    """The error for partitions that are not there."""
    shown = ", ".join(
        "PARTITION (" + ", ".join(f"{name} = {value}" for name, value in spec.items()) + ")" for spec in specs
    )
    return NotFoundError(
        f"[PARTITIONS_NOT_FOUND] The partition(s) {shown} cannot be found in table {table.name}.",
        remedy="SHOW PARTITIONS lists them; DROP IF EXISTS ignores missing ones",
    )


def add(lake: Lake, table: Table, specs: Iterable[Spec], if_not_exists: bool) -> None:
    """Check that partitions can be added: a table has those that have files, so there is nothing to write."""
    for given in specs:
        spec = require_full(table, given)
        if listed(lake, table, spec) and not if_not_exists:
            raise AlreadyExistsError(
                f"[PARTITIONS_ALREADY_EXIST] Cannot ADD PARTITION {dict(spec)} in table {table.name} because it "
                "already exists.",
                remedy="ADD IF NOT EXISTS PARTITION",
            )
