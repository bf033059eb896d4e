"""Blob descriptors: bytes that say where a blob lies, in place of the blob.

    descriptor := version: u8 (2) magic: i64 ("BLOBDESC") uri_length: i32 uri: UTF-8 offset: i64 length: i64

Little endian. A length of -1 means: to the end of the file.

    holds(values)                       which of an array's values are descriptors, by their first bytes
    describe(uri, offsets, lengths)     descriptors of places in one file, each `size_of(uri)` bytes
    parsed(values)                      uris, offsets and lengths
    of_files(paths), shown(values)      descriptors of whole files; descriptors as texts

Spec: docs/spec/blob.md#descriptors
"""

from __future__ import annotations

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.arrow import binary_content

Numbers = npt.NDArray["np.int64"]
Mask = npt.NDArray["np.bool_"]
TO_THE_END = -1
_VERSION = 2
_MAGIC = (0x424C4F4244455343).to_bytes(8, "little")
_VIEW = b"\x01" + (0x424C4F4256494557).to_bytes(8, "little")
_HEAD, _TAIL = 13, 16


def holds(values: pa.Array) -> Mask:
    """Which values of a binary array are descriptors, nulls being none.

    Raises UnsupportedError for one of another version, and for a reference to a blob of another table ("BLOBVIEW").
    """
    starts = pc.binary_slice(values, 0, 9)
    if _any(pc.equal(starts, pa.scalar(_VIEW, starts.type))):
        raise UnsupportedError("references to blobs of other tables (blob views)", remedy="write the blob itself")
    marked = pc.equal(pc.binary_slice(starts, 1, 9), pa.scalar(_MAGIC, starts.type))
    found = _mask(marked)
    if found.any():
        versions = pc.unique(pc.binary_slice(starts.filter(pa.array(found)), 0, 1)).to_pylist()
        if versions != [bytes([_VERSION])]:
            raise UnsupportedError("blob descriptors of another version", versions=versions, known=_VERSION)
    return found


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())


def _mask(mask: pa.Array) -> Mask:
    found: Mask = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return found


def describe(uri: str, offsets: Numbers, lengths: Numbers) -> pa.Array:
    """Descriptors of so many bytes from these offsets on."""
    name = uri.encode()
    head = bytes([_VERSION]) + _MAGIC + len(name).to_bytes(4, "little") + name
    places = np.stack([offsets, lengths], axis=1).astype("<i8")
    rows = np.concatenate(
        [
            np.broadcast_to(np.frombuffer(head, np.uint8), (len(offsets), len(head))),
            places.view(np.uint8).reshape(len(offsets), _TAIL),
        ],
        axis=1,
    )
    ends = np.arange(len(offsets) + 1, dtype=np.int64) * rows.shape[1]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets), buffers).cast(pa.binary())


def size_of(uri: str) -> int:
    """Bytes of a descriptor of a place in a file."""
    return _HEAD + len(uri.encode()) + _TAIL


def parsed(values: pa.Array) -> tuple[pa.Array, Numbers, Numbers]:
    """What descriptors say, in their order: uris as texts, offsets, lengths. None may be null.

    Raises InvalidError where one is cut short or names no place.
    """
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    if (sizes < _HEAD + _TAIL).any():
        raise InvalidError("Invalid BlobDescriptor data: too short")
    named = _numbers(pc.binary_slice(values, 9, _HEAD), "<i4")
    if (named != sizes - _HEAD - _TAIL).any():
        raise InvalidError("Invalid BlobDescriptor data: URI length exceeds data size")
    places = _numbers(pc.binary_slice(values, -_TAIL, None), "<i8").reshape(-1, 2)
    offsets, lengths = places[:, 0].astype(np.int64), places[:, 1].astype(np.int64)
    if (offsets < 0).any() or (lengths < TO_THE_END).any() or (offsets > (1 << 62)).any() or (lengths > 1 << 62).any():
        raise InvalidError("Invalid BlobDescriptor data: no such place in a file")
    try:
        uris = pc.binary_slice(values, _HEAD, -_TAIL).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise InvalidError("Invalid BlobDescriptor data: the URI is not text") from error
    return uris, offsets, lengths


def _numbers(parts: pa.Array, kind: str) -> npt.NDArray[np.int64]:
    """Numbers of fixed width that lie in the values of an array, one after the other."""
    return np.frombuffer(binary_content(parts.cast(pa.large_binary())), kind).astype(np.int64)


def of_files(paths: pa.Array) -> pa.Array:
    """Descriptors of whole files; null where the path is. InvalidError for what is no text."""
    names = _bytes_of(paths, "a path")
    sizes = pc.fill_null(pc.binary_length(names), 0).to_numpy(zero_copy_only=False).astype("<i4")
    offsets = pa.py_buffer(np.arange(len(sizes) + 1, dtype=np.int64) * 4)
    lengths = pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, offsets, pa.py_buffer(sizes.tobytes())])
    head, tail, nothing = (
        pa.scalar(part, pa.large_binary())
        for part in (bytes([_VERSION]) + _MAGIC, bytes(8) + (TO_THE_END).to_bytes(8, "little", signed=True), b"")
    )
    return pc.binary_join_element_wise(head, lengths, names, tail, nothing).cast(pa.binary())


def _bytes_of(values: pa.Array, what: str) -> pa.Array:
    """Bytes or texts of any width."""
    if values.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null()):
        raise InvalidError(f"not {what}", type=str(values.type), remedy="give a text, or bytes")
    return values.cast(pa.large_binary())


def shown(values: pa.Array) -> pa.Array:
    """Descriptors as Apache Paimon prints them; null where there is none. InvalidError for what is no descriptor."""
    values = _bytes_of(values, "a blob descriptor").cast(pa.binary())
    there = values.is_valid()
    given = values.filter(there)
    if not holds(given).all():
        raise InvalidError("Invalid BlobDescriptor: missing magic header")
    uris, offsets, lengths = parsed(given)
    parts = [
        *("BlobDescriptor{version=" + str(_VERSION) + ", uri='", uris, "', offset="),
        *(pa.array(offsets).cast(pa.string()), ", length=", pa.array(lengths).cast(pa.string()), "}"),
    ]
    texts = pc.binary_join_element_wise(*parts, "")
    places = np.cumsum(there.to_numpy(zero_copy_only=False)) - 1
    return texts.take(pa.array(places, mask=~there.to_numpy(zero_copy_only=False)))
