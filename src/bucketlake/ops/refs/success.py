"""Files that say to others that something is done: `_SUCCESS` of partitions and of tags.

    { "creationTime" : <epoch millis>, "modificationTime" : <epoch millis> }

Spec: docs/spec/tags.md#success-files
"""

from __future__ import annotations

from bucketlake.errors import NotFoundError
from bucketlake.format.guard import decoding, integer, json_object
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import pretty_json


def mark_tag(store: Store, name: str) -> None:
    """With `tag.create-success-file`, say that a tag is there."""
    if store.options.get("tag.create-success-file"):
        write_success(store, store.paths.tag_success(name))


def unmark_tag(store: Store, name: str) -> None:
    """Take back what `mark_tag` said."""
    if store.options.get("tag.create-success-file"):
        store.env.storage.delete(store.paths.tag_success(name))


def write_success(store: Store, path: str) -> None:
    """Write a success file, or a later time of modification into one that is there."""
    now = store.env.clock.now_millis()
    made = now
    try:
        data = store.env.storage.read(path)
    except NotFoundError:
        pass
    else:
        with decoding("not a success file", path):
            known: object = json_object(data).get("creationTime")
            made = known if integer(known) and isinstance(known, int) else now
    store.env.storage.write(path, pretty_json({"creationTime": made, "modificationTime": now}).encode())
