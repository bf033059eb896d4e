"""A new file of which the storage lost the answer."""

from __future__ import annotations

from contextlib import suppress

from bucketlake.env.storage import Storage
from bucketlake.errors import NotFoundError, StorageError


def put_new(storage: Storage, path: str, data: bytes) -> bool:
    """`Storage.put_if_absent`, where a storage that fails after the effect counts as one that answered. For bytes that
    say all that matters, whoever wrote them. StorageError where the file does not hold them, as far as can be seen."""
    try:
        return storage.put_if_absent(path, data)
    except StorageError:
        with suppress(StorageError, NotFoundError):
            if storage.read(path) == data:
                return True
        raise
