"""Every effect: files, clock, identifiers, randomness, sleep; object stores too. Nothing else touches them."""

from __future__ import annotations

from bucketlake.env.env import (
    NO_LINKS,
    NO_SYNC,
    SYNCS,
    Buffered,
    Clock,
    Env,
    FileInfo,
    LocalStorage,
    Storage,
    SystemClock,
    deleted_one_by_one,
    new_scratch_folder,
    outside,
    refuse_links,
    scratch_array,
)

__all__ = [
    "Buffered",
    "Clock",
    "Env",
    "FileInfo",
    "LocalStorage",
    "NO_LINKS",
    "NO_SYNC",
    "SYNCS",
    "Storage",
    "SystemClock",
    "deleted_one_by_one",
    "new_scratch_folder",
    "outside",
    "refuse_links",
    "scratch_array",
]
