"""Parts of an object in one request each: how large it is comes with the answer.

    part_of(store, key, offset, length)     the bytes from a place on
    end_of(store, key)                      the size, and the last bytes

`store`: obstore's. Its errors are the caller's affair.
"""

from __future__ import annotations

from typing import Any

from bucketlake.lazy import obstore, obstore_errors, obstore_store

END_BYTES = 1 << 18  # footers, and all of a small file


def part_of(store: Any, key: str, offset: int, length: int | None) -> bytes:
    """The bytes of an object from a place on, as many as there are of so many (all by default)."""
    wanted = {"offset": offset} if length is None else (offset, offset + length)
    found = None if length == 0 else _ranged(store, key, wanted)  # no bytes are no range: is the object there?
    if found is not None:
        return found[1]
    size = obstore.head(store, key)["size"]
    end = size if length is None else min(size, offset + length)
    return bytes(obstore.get_range(store, key, start=offset, end=end)) if offset < end else b""


def end_of(store: Any, key: str) -> tuple[int, bytes]:
    """An object's size and its last bytes, where the formats have their footers: one request, where the store counts
    from the end (Azure does not)."""
    azure = isinstance(store, obstore_store.AzureStore)
    found = None if azure else _ranged(store, key, {"suffix": END_BYTES})
    return found or (obstore.head(store, key)["size"], b"")


def _ranged(store: Any, key: str, wanted: Any) -> tuple[int, bytes] | None:
    """An object's size and a part of it; None where the store has an error for it, as for what lies behind the end."""
    try:
        found = obstore.get(store, key, options={"range": wanted})
        return found.meta["size"], bytes(found.bytes())
    except (obstore_errors.NotFoundError, FileNotFoundError):
        raise
    except obstore_errors.BaseError:
        return None
