"""How a snapshot or a schema takes its name: by the storage alone, or by the catalog that keeps the table.

Spec: docs/catalogs.md#commits
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from bucketlake.env.keeper import Publication
from bucketlake.env.new_file import put_new
from bucketlake.errors import StorageError
from bucketlake.ops.table.store import Store
from bucketlake.schema.change import SchemaChange
from bucketlake.schema.schema import TableSchema

Statistics = Callable[[], Sequence[Mapping[str, Any]]]


def publish(store: Store, path: str, data: bytes, base: str | None, statistics: Statistics) -> bool:
    """Publish a snapshot's file; False if the name is taken. `base`: the uuid of the snapshot before, `statistics`:
    what it changes in each partition, both for a catalog.

    Errors: CommitError where the catalog refuses it for certain, StorageError.
    """
    keeper = store.env.keeper
    if keeper is None:
        return store.env.storage.put_if_absent(path, data)
    return keeper.publish(store.env.storage, Publication(path, data, store.branch_name, base, statistics))


def publish_schema(store: Store, schema: TableSchema) -> bool:
    """Publish a schema; False if its name is taken. Errors as `publish`."""
    path, keeper = store.paths.schema(schema.id), store.env.keeper
    if keeper is None:
        return put_new(store.env.storage, path, schema.encode())
    return keeper.put_schema(store.env.storage, path, schema.encode())


def write_hint(store: Store, path: str, number: int) -> None:
    """Say in a hint which snapshot or changelog is first or last, best effort: readers do without."""
    with suppress(StorageError):
        store.env.storage.write(path, str(number).encode())


def is_managed(store: Store) -> bool:
    """Whether the table's catalog alone decides about its history."""
    return store.env.keeper is not None and store.env.keeper.manages


def by_catalog(store: Store, operation: str, **given: Any) -> bool:
    """Have the catalog that manages a table do something to its history; False where its files are the caller's."""
    keeper = store.env.keeper
    if keeper is None or not keeper.manages:
        return False
    keeper.call(operation, store.branch_name, **given)
    return True


def alter_managed(store: Store, changes: Sequence[SchemaChange]) -> bool:
    """Have the catalog that manages a table make its next schema; False where the caller publishes it itself."""
    return by_catalog(store, "alter", changes=tuple(changes))
