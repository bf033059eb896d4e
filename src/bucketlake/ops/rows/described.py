"""What blob descriptors name: which files a table may read for them, and the bytes, in pieces.

    Sources(store, column, nullable)     those of one column

A descriptor may come from anybody: it names a file of the table's own folder, or of a folder that the session allows.
Spec: docs/spec/blob.md#descriptors
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain

from bucketlake.errors import InvalidError, NotFoundError, StorageError
from bucketlake.file_names import fault_of_path, lies_in_any, local_path
from bucketlake.format.data import descriptor
from bucketlake.ops.table.store import Store

PIECE = 8 << 20


class Sources:
    """Reads what descriptors in the values of a column name. `nullable`: whether null may stand for a value."""

    def __init__(self, store: Store, column: str, nullable: bool) -> None:
        options = store.options
        self._env, self._roots = store.env, (store.paths.root, *store.env.external)
        self._column, self._nullable = column, nullable
        failed = bool(options.get("blob-write-null-on-fetch-failure"))
        self._null_for: tuple[type[Exception], ...] = (StorageError, NotFoundError) if failed else ()
        if options.get("blob-write-null-on-missing-file"):
            self._null_for = (*self._null_for, NotFoundError)

    def reached(self, uri: str) -> str:
        """The path of a file that a descriptor may name. Raises InvalidError for any other."""
        path = local_path(uri)
        fault = fault_of_path(path)
        if fault is not None or not lies_in_any(path, self._roots):
            raise InvalidError(
                "a blob descriptor names a file that this session does not let the table read",
                column=self._column,
                uri=uri,
                reason=fault,
                remedy="open with the option 'allowed-external-paths', a list of folders, or write the blob itself",
            )
        return path

    def pieces(self, uri: str, offset: int, length: int) -> Iterator[bytes] | None:
        """The bytes that a descriptor names; None where the options say that null stands for what is not there, or
        cannot be opened.

        Raises InvalidError for a file that may not be read, or does not have these bytes; NotFoundError, StorageError.
        """
        path = self.reached(uri)
        try:
            found = self._pieces(path, offset, length)
            first = next(found, b"")
        except self._null_for as error:
            if not self._nullable:
                raise InvalidError(
                    f"Cannot write null to non-null column({self._column})", column=self._column, reason=str(error)
                ) from error
            warnings.warn(f"null for a blob of column {self._column}: {error}", stacklevel=2)
            return None
        return chain((first,), found)

    def _pieces(self, path: str, offset: int, length: int) -> Iterator[bytes]:
        info = self._env.storage.info(path)
        there = 0 if info is None else info.size - offset
        wanted = there if length == descriptor.TO_THE_END else length
        if info is not None and not 0 <= wanted <= there:
            raise InvalidError(
                "a blob descriptor names bytes that its file does not have", uri=path, offset=offset, length=length
            )
        if info is None or wanted == 0:
            yield self._env.storage.read(path, offset, 0)  # which says that a file is not there
        for start in range(0, wanted, PIECE):
            yield self._env.storage.read(path, offset + start, min(PIECE, wanted - start))
