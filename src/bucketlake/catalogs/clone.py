"""Tables of a catalog cloned to another name or catalog.

Spec: docs/spec/clone.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bucketlake.errors import AlreadyExistsError, InvalidError, UnsupportedError, check_threads, check_types
from bucketlake.ops.clean.orphans import Run
from bucketlake.ops.clone.clone import Cloned, CloneRequest, clone_into, clone_new, cloned_schemas
from bucketlake.ops.clone.files import copy_here
from bucketlake.ops.scan.chain import refuse_stream
from bucketlake.ops.scan.partition_choice import chosen_partitions
from bucketlake.ops.table.store import Store
from bucketlake.options.map_layout import is_of_layout
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.change import SetOption
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.schema.versions import apply
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.catalogs.warehouse import Warehouse
    from bucketlake.table import Table


@dataclass(frozen=True, slots=True)
class Cloning:
    """How a table is cloned. `scan`: options that choose the snapshot (`scan.snapshot-id`, `scan.tag-name`, …), the
    newest without; `where`: over partition columns; `options`: of a new table; `if_exists`: False leaves a table that
    is there alone."""

    where: str | Predicate | None = None
    scan: Mapping[str, Any] | None = None
    options: Mapping[str, str] | None = None
    meta_only: bool = False
    if_exists: bool = True
    threads: int | None = None


def clone_table(
    source: Table, catalog: Warehouse, name: str, how: Cloning | None = None, run: Run = copy_here
) -> Cloned | None:
    """Clone a table; None where it is there and that is left alone. See `Catalog.clone_table`."""
    check_types((Cloning, type(None)), "give a Cloning, or None", how=how)
    how = how or Cloning()
    check_threads(how.threads)
    if source.view is not None:
        raise InvalidError("a system table has no files to clone", table=source.name)
    refuse_undelivered(source.store.schema)
    refuse_stream(source.store, "cloning a chain table")
    if source.store.schema.managed_fields:
        raise UnsupportedError(
            "a clone of a table with a primary key and BLOB columns: its rows would point at the source's files",
            table=source.name,
            remedy="CREATE TABLE … AS SELECT",
        )
    lies = {"primary-key", "partition", "bucket", "bucket-key"}
    if wrong := sorted(key for key in how.options or () if key in lies or is_of_layout(key)):
        raise InvalidError("options that say how files lie cannot be others than the source's", options=wrong)
    if how.options:  # as ALTER TABLE takes them where there are rows
        apply(source.store.schema, [SetOption(key, value) for key, value in how.options.items()], table=source.name)
    _, selection = source.as_of(dict(how.scan or {}))
    predicate = source.predicate(how.where) if isinstance(how.where, str) else how.where
    request = CloneRequest(
        selection.snapshot if how.scan else None,
        chosen_partitions(source.store, None, predicate),
        str(how.where or ""),
        dict(how.options or {}),
        how.meta_only,
        how.threads,
    )
    place = catalog.placed(name)
    path = place.path
    if path == source.path:
        raise InvalidError("a table cannot be cloned to itself", table=name)
    if catalog.table_exists(name):
        if not how.if_exists:
            return None
        if how.options:
            raise AlreadyExistsError("the table exists: options are for new ones", table=name)
        return clone_into(source.store, catalog.table(name).for_writing().store, request, run)
    catalog.require_database(name)
    schemas = cloned_schemas(source.store, request.options)
    newest = next(schema for schema in schemas if schema.id == source.store.latest_schema().id)
    refuse_undelivered(newest)
    done = clone_new(source.store, Store.of(place.env, path, newest), schemas, request, run)
    catalog.adopt_table(name)
    return done
