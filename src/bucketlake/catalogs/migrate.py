"""Which table a folder's files become, and what it is made of where it is new.

Spec: docs/spec/migration.md#target
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from bucketlake.env.object_store import storage_for
from bucketlake.env.storage import Storage
from bucketlake.errors import AlreadyExistsError, InvalidError, UnsupportedError, check_types
from bucketlake.ops.migrate.footers import footer_of, schema_of
from bucketlake.ops.migrate.migrate import Migrated, migrate
from bucketlake.ops.migrate.source import HIVE_DEFAULT, Source, check_source, data_files, partition_keys_of
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import STRING, DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.catalogs.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Draft:
    """What a folder's files hold, as whoever wrote them says: all columns, which of them the folders tell, and options
    of the table where it is new."""

    fields: Sequence[DataField]
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def migrate_folder(
    catalog: Warehouse,
    folder: str,
    name: str,
    file_format: str = "parquet",
    draft: Draft | None = None,
    threads: int | None = None,
) -> Migrated:
    """Make a folder's files those of a table of the catalog; see `Catalog.migrate_folder`."""
    check_types(str, "give the folder's path, a text", folder=folder)
    check_types((Draft, type(None)), "give what the files hold as a Draft, or None: their footers say it", draft=draft)
    _, location = storage_for(folder, catalog.options)
    if ("://" in location) != ("://" in catalog.warehouse):
        raise UnsupportedError(
            "the folder lies in another store than the warehouse",
            path=folder,
            warehouse=catalog.warehouse,
            remedy="CREATE TABLE … AS SELECT copies the rows",
        )
    storage = catalog.env.storage
    check_source(storage, Source(location, file_format))
    if draft is not None and draft.options.get("bucket", "-1") != "-1":
        raise InvalidError(
            "Hive migrator only support unaware-bucket target table, bucket should be -1",
            table=name,
            bucket=draft.options["bucket"],
        )
    if catalog.table_exists(name):
        table = catalog.table(name).for_writing()
        told = partition_keys_of(storage, location) or tuple(table.schema.partition_keys)
        keys = told if draft is None else tuple(draft.partition_keys)
        return migrate(storage, table.store, Source(location, file_format, keys), threads=threads)
    declared = draft is not None
    draft = draft or drafted(storage, location, file_format)
    options = {"bucket": "-1", **draft.options}
    if draft.partition_keys:
        options.setdefault("partition.default-name", HIVE_DEFAULT)
    made = catalog.draft_table(name, list(draft.fields), list(draft.partition_keys), [], options, draft.comment)

    def publish() -> None:
        if not catalog.publish_table(made) and not _is_same(catalog.table(name).schema, made.schema):
            raise AlreadyExistsError("another process has just created the table", table=name, remedy="call again")

    source = Source(location, file_format, tuple(draft.partition_keys), declared)
    return migrate(storage, made.store, source, publish=publish, threads=threads)


def _is_same(one: TableSchema, other: TableSchema) -> bool:
    return all(
        getattr(one, part) == getattr(other, part) for part in ("fields", "partition_keys", "primary_keys", "options")
    )


def drafted(storage: Storage, location: str, file_format: str) -> Draft:
    """The columns of the first file, and behind them the partitions' as texts."""
    keys = partition_keys_of(storage, location)
    files = data_files(storage, Source(location, file_format, keys))
    if not files:
        raise InvalidError("no data file tells the columns", path=location, remedy="make the table first")
    columns = [item for item in schema_of(footer_of(storage, files[0], file_format, ())) if item.name not in keys]
    parts = [DataField(0, key, STRING) for key in keys]
    return Draft([replace(item, id=place) for place, item in enumerate([*columns, *parts])], keys)
