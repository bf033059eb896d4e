"""Consumers: who reads a table as a stream, and which snapshot each reads next.

    consumer/consumer-<id>     { "nextSnapshot" : <id> }

Spec: docs/spec/tags.md#consumers
"""

from __future__ import annotations

import re

from bucketlake.errors import InvalidError
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import pretty_json


def reset_consumer(store: Store, name: str, following: int | None) -> None:
    """Let a consumer read a snapshot next, which must be there (NotFoundError); None: forget the consumer."""
    path = store.paths.consumer(name)
    if following is None:
        store.env.storage.delete(path)
        return
    store.snapshot(following)
    advance_consumer(store, name, following)


def advance_consumer(store: Store, name: str, following: int) -> None:
    """Let a consumer read a snapshot next, which may be still to come: older ones may expire."""
    store.env.storage.write(store.paths.consumer(name), pretty_json({"nextSnapshot": following}).encode())


def clear_consumers(store: Store, including: str | None = None, excluding: str | None = None) -> list[str]:
    """Forget the consumers whose whole name matches `including` (all by default) and not `excluding`, regular
    expressions; their names. InvalidError for what is no expression."""
    wanted, unwanted = _pattern(including or ".*"), None if excluding is None else _pattern(excluding)
    gone = [
        name
        for name in store.consumers()
        if wanted.fullmatch(name) and not (unwanted is not None and unwanted.fullmatch(name))
    ]
    for name in gone:
        store.env.storage.delete(store.paths.consumer(name))
    return gone


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidError("not a regular expression", text=text, reason=str(error)) from error
