"""What blob descriptors name: which files a table may read for them, and the bytes.

    Sources(store, column, nullable)     of one column: in pieces, for a write
    Named(sources, values)               of an array: where each lies, how large it is, the values
    keeping(store)                       makes new rows what columns of descriptors ('blob-descriptor-field') store
    followed(store, names)               those of some columns whose values lie where descriptors say
    as_stored(store)                     the table with descriptors as they are, whatever a read gives

A descriptor may come from anybody: it names a file of the table's own folder, or of a folder that the session allows.
Spec: docs/spec/blob.md#descriptors
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import chain, pairwise

from bucketlake.env.clients import spelled_as
from bucketlake.env.storage import FileInfo
from bucketlake.errors import InvalidError, NotFoundError, StorageError, UnsupportedError
from bucketlake.file_names import fault_of_path, lies_in_any
from bucketlake.format.data import descriptor
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TableSchema
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import BYTES, DataField, DataType

AS_DESCRIPTOR = "blob-as-descriptor"
Numbers = npt.NDArray["np.int64"]
PIECE = 8 << 20
_MOST = (1 << 31) - 1  # bytes of an Arrow array


class Sources:
    """Reads what descriptors in the values of a column name. `nullable`: whether null may stand for a value."""

    def __init__(self, store: Store, column: str, nullable: bool) -> None:
        self.storage, self.column = store.env.storage, column
        self._own, self._nullable = store.paths.root, nullable
        self._roots = (self._own, *(spelled_as(self._own, root) for root in store.env.external))
        self.null_if_missing = bool(store.options.get("blob-write-null-on-missing-file"))
        failed = bool(store.options.get("blob-write-null-on-fetch-failure"))
        self._null_for: tuple[type[Exception], ...] = (StorageError, NotFoundError) if failed else ()
        if self.null_if_missing:
            self._null_for = (*self._null_for, NotFoundError)

    def reached(self, uri: str) -> str:
        """The path of a file that a descriptor may name. Raises InvalidError for any other."""
        path = spelled_as(self._own, uri)
        fault = fault_of_path(path)
        if fault is not None or not lies_in_any(path, self._roots):
            raise InvalidError(
                "a blob descriptor names a file that this session does not let the table read",
                column=self.column,
                uri=uri,
                reason=fault or "it lies in none of the allowed folders",
                remedy="open with the option 'allowed-external-paths', a list of folders",
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
            self.warn(error)
            return None
        return chain((first,), found)

    def warn(self, error: Exception) -> None:
        """Null stands for a value. Raises InvalidError where it may not."""
        if not self._nullable:
            raise InvalidError(
                f"Cannot write null to non-null column({self.column})", column=self.column, reason=str(error)
            ) from error
        warnings.warn(f"null for a blob of column {self.column}: {error}", stacklevel=2)

    def _pieces(self, path: str, offset: int, length: int) -> Iterator[bytes]:
        info = self.storage.info(path)
        wanted = 0 if info is None else _wanted(info, offset, length)
        if info is None or wanted == 0:
            yield self.storage.read(path, offset, 0)  # which says that a file is not there
        for start in range(0, wanted, PIECE):
            yield self.storage.read(path, offset + start, min(PIECE, wanted - start))


def _wanted(info: FileInfo, offset: int, length: int) -> int:
    there = info.size - offset
    wanted = there if length == descriptor.TO_THE_END else length
    if not 0 <= wanted <= there:
        raise InvalidError(
            "a blob descriptor names bytes that its file does not have", uri=info.path, offset=offset, length=length
        )
    return wanted


class Named:
    """What the descriptors of a binary array name. `sizes`: bytes of each value, 0 for nulls. Looks at every file, and
    reads none.

    Raises InvalidError for what is no descriptor, names a file that may not be read or is not there, or bytes that it
    does not have; UnsupportedError for a value of 2 GiB; StorageError.
    """

    def __init__(self, sources: Sources, values: pa.Array) -> None:
        self._storage = sources.storage
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        uris, offsets, lengths = _read(sources, values.filter(pa.array(valid)))
        names = uris.dictionary_encode()
        self._paths = [sources.reached(uri) for uri in names.dictionary.to_pylist()]
        infos = parallel(self._storage.info, self._paths)
        for path, info in zip(self._paths, infos, strict=True):
            if info is None:  # no NotFoundError: that is a lost file of the table, which may be passed over
                raise InvalidError(
                    "a blob descriptor names a file that is not there",
                    column=sources.column,
                    uri=path,
                    remedy="bring it back, set the column to null, or read descriptors: 'blob-as-descriptor' = 'true'",
                )
        spaces = np.array([0 if info is None else info.size for info in infos], np.int64)
        self._files = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        there = spaces[self._files] - offsets
        self._offsets, self._lengths = offsets, np.where(lengths == descriptor.TO_THE_END, there, lengths)
        wrong = np.flatnonzero((self._lengths < 0) | (self._lengths > there))
        if len(wrong):
            place = int(wrong[0])
            info = infos[int(self._files[place])]
            assert info is not None
            _wanted(info, int(offsets[place]), int(lengths[place]))
        if int(self._lengths.max(initial=0)) > _MOST:
            raise UnsupportedError(
                "a blob of 2 GiB and more cannot be a value",
                column=sources.column,
                remedy="read it in parts: 'blob-as-descriptor' = 'true' says where it lies",
            )
        self._places = np.where(valid, np.cumsum(valid) - 1, -1)
        self.sizes = np.zeros(len(values), np.int64)
        self.sizes[valid] = self._lengths

    def take(self, start: int, end: int) -> pa.Array:
        """The values from `start` to `end`."""
        places = self._places[start:end]
        own = places[places >= 0]
        order = own[np.lexsort((self._offsets[own], self._files[own]))]
        cuts = np.flatnonzero(np.diff(self._files[order], prepend=-1)).tolist()
        groups = [order[first:last] for first, last in pairwise([*cuts, len(order)])]
        parts = list(chain.from_iterable(parallel(self._values, groups)))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths[order])])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
        values = pa.Array.from_buffers(pa.large_binary(), len(order), buffers)
        ranks = np.zeros(len(self._lengths) + 1, np.int64)  # the last stands for nulls
        ranks[order] = np.arange(len(order))
        return values.take(pa.array(ranks[places], mask=places < 0)).cast(pa.binary())

    def _values(self, group: Numbers) -> list[bytes]:
        """Values of one file, by ascending offset."""
        ranges = list(zip(self._offsets[group].tolist(), self._lengths[group].tolist(), strict=True))
        path = self._paths[int(self._files[group[0]])]
        found = self._storage.read_ranges(path, ranges)
        if [len(part) for part in found] != [length for _, length in ranges]:
            raise StorageError("a file that a blob descriptor names became shorter", path=path)
        return found


class NamedElements:
    """As `Named`, what the descriptors of an ARRAY or MAP column name."""

    def __init__(self, sources: Sources, values: pa.Array) -> None:
        entries = pairs_of(values) if pa.types.is_map(values.type) else values
        self._rows, self._bounds = values, list_offsets(entries).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = entries.flatten()
        self._keys = flat.field(0) if pa.types.is_map(values.type) else None
        self._named = Named(sources, flat if self._keys is None else flat.field(1))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._named.sizes)])
        self.sizes: Numbers = np.diff(ends[self._bounds])

    def take(self, start: int, end: int) -> pa.Array:
        """The values from `start` to `end`."""
        bounds = self._bounds[start : end + 1]
        found = self._named.take(int(bounds[0]), int(bounds[-1]))
        keys = None if self._keys is None else self._keys.slice(bounds[0], bounds[-1] - bounds[0])
        return with_elements(self._rows.slice(start, end - start), bounds - bounds[0], keys, found)


def with_elements(rows: pa.Array, bounds: Numbers, keys: pa.Array | None, values: pa.Array) -> pa.Array:
    """Rows of an ARRAY or MAP with other values, of the same type; `bounds`: where each row's begin, from 0 on."""
    kind = rows.type
    if keys is None:
        child = values
    else:
        child = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
    valid = None
    if rows.null_count:
        valid = pa.py_buffer(np.packbits(rows.is_valid().to_numpy(zero_copy_only=False), bitorder="little").tobytes())
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.Array.from_buffers(kind, len(rows), [valid, offsets], children=[child])


def named(sources: Sources, values: pa.Array) -> Named | NamedElements:
    """What the descriptors of a column name. Errors: as `Named`."""
    return (NamedElements if pa.types.is_nested(values.type) else Named)(sources, values)


def _read(sources: Sources, given: pa.Array) -> tuple[pa.Array, Numbers, Numbers]:
    if not descriptor.holds(given).all():
        raise InvalidError(
            "BLOB inline fields configured by blob-descriptor-field or blob-view-field require values to be a "
            "BlobDescriptor or BlobViewStruct.",
            column=sources.column,
            remedy="write what sys.path_to_descriptor gives, or what reads give with 'blob-as-descriptor' = 'true'",
        )
    return descriptor.parsed(given)


def keeping(store: Store) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Gives new rows as columns of descriptors store them: null for those whose file is not there, where options say
    so. It raises InvalidError, in Paimon's words, for what is no descriptor."""
    columns = [Sources(store, item.name, item.type.nullable) for item in store.schema.described_fields]

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        for sources in columns:
            place = batch.schema.get_field_index(sources.column)
            if place >= 0:
                batch = batch.set_column(place, batch.schema.field(place), _kept(sources, batch.column(place)))
        return batch

    return rows


def _kept(sources: Sources, values: pa.Array) -> pa.Array:
    given = values.drop_null()
    uris, _, _ = _read(sources, given)
    if not sources.null_if_missing:
        return values
    names = uris.dictionary_encode()
    gone = []
    for uri in names.dictionary.to_pylist():
        path = sources.reached(uri)
        gone.append(sources.storage.info(path) is None)
        if gone[-1]:
            sources.warn(NotFoundError("no such file", path=path))
    if not any(gone):
        return values
    lost = pc.take(pa.array(gone), names.indices)
    places = pc.cumulative_sum(values.is_valid().cast(pa.int64()))
    missing = pc.if_else(values.is_valid(), pc.subtract(places, 1), None)
    return pc.if_else(pc.fill_null(lost.take(missing), False), pa.scalar(None, values.type), values)


def followed(store: Store, names: Collection[str]) -> list[str]:
    """The columns of descriptors among some that a read gives the values of: of unknown size, and not in the table's
    files of rows."""
    if store.options.get(AS_DESCRIPTOR):
        return []
    return [item.name for item in _pointing(store.schema) if item.name in names]


def _pointing(schema: TableSchema) -> tuple[DataField, ...]:
    return (*schema.described_fields, *schema.managed_fields)


def plain_bytes(kind: DataType) -> DataType:
    """BLOB, ARRAY<BLOB> or MAP<K, BLOB> with BYTES in the place of BLOB."""
    if kind.element is not None:
        return replace(kind, element=plain_bytes(kind.element))
    return BYTES.with_nullable(kind.nullable)


def as_stored(store: Store) -> Store:
    """The table with the columns of descriptors as BYTES, for whoever writes rows again that he read."""
    described = _pointing(store.schema)
    if not described:
        return store
    fields = tuple(
        replace(item, type=plain_bytes(item.type)) if item in described else item for item in store.schema.fields
    )
    return store.with_schema(replace(store.schema, fields=fields))
