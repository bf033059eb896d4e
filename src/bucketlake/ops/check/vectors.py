"""Deletion vectors of a snapshot while it is mended: read where they are needed, written anew where they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from bucketlake.errors import BucketlakeError
from bucketlake.format.index.deletion_vector import Vector, positions_of
from bucketlake.format.index.index_manifest import DELETION_VECTORS, IndexEntry
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.rows.deletions import load_vectors, new_vector, write_vectors
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.store import Store


class Marks:
    """The vectors of all buckets. `lenient`: buckets where those that cannot be read may be left out."""

    def __init__(self, store: Store, indexes: Sequence[IndexEntry], lenient: Set[BucketKey]) -> None:
        self._store, self._lenient = store, lenient
        self._entries: dict[BucketKey, list[IndexEntry]] = {}
        for entry in indexes:
            if entry.file.index_type == DELETION_VECTORS:
                self._entries.setdefault((entry.partition, entry.bucket), []).append(entry)
        self._loaded: dict[BucketKey, dict[str, Vector]] = {}
        self._changed: set[BucketKey] = set()
        self.made: list[IndexEntry] = []

    def of(self, place: BucketKey) -> dict[str, Vector]:
        """The vectors of a bucket by the names of their files; those of one file are one. Errors as `load_vectors`."""
        known = self._loaded.get(place)
        if known is None:
            known = self._loaded[place] = {}
            for entry in self._entries.get(place, ()):
                for part in entry.file.dv_ranges or ():
                    alone = replace(entry, file=replace(entry.file, dv_ranges=(part,)))
                    found = attempted(lambda e=alone: load_vectors(self._store, [e]))  # type: ignore[misc]
                    if isinstance(found, BucketlakeError):
                        if place not in self._lenient:
                            raise found
                        continue
                    for name, vector in found.items():
                        old = known.get(name)
                        known[name] = vector if old is None else new_vector(self._store, positions_of(vector), old)
        return known

    def drop(self, place: BucketKey, names: Set[str]) -> None:
        """Forget the vectors of files that go."""
        told = {part.data_file_name for e in self._entries.get(place, ()) for part in e.file.dv_ranges or ()}
        if told & names:
            self._changed.add(place)
            for name in names:
                self.of(place).pop(name, None)

    def changes(self, live: Mapping[BucketKey, Set[str]], wanted: Set[BucketKey]) -> list[IndexEntry]:
        """Index files in the place of those that changed, and of those wanted; vectors of other files go."""
        found: list[IndexEntry] = []
        for place in sorted(self._changed | {place for place in wanted if place in self._entries}):
            own = {name: vector for name, vector in self.of(place).items() if name in live.get(place, ())}
            found += [replace(entry, kind=FileKind.DELETE) for entry in self._entries.get(place, ())]
            new = [IndexEntry(FileKind.ADD, *place, file) for file in write_vectors(self._store, *place, own)]
            self.made += new
            found += new
        return found
