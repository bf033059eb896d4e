"""Which packs of blobs the rows of a data file point at: a file beside it, `<data file>.blobref`.

    references := magic: i32 ("PBLR") body checksum: i32
    body       := version: u8 (1) count: i32 (folder: text name: text)*
    text       := length: u16 bytes

Big endian; sorted, none twice. Texts are Java's modified UTF-8, the checksum is the CRC-32 of the body. An empty list
says that no pack is referred to; a missing file says nothing.

    encode_references(uris)     the file of the descriptors with these uris

Spec: docs/spec/blob.md#primary-keys
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from bucketlake.errors import UnsupportedError

MANAGED = "managed.blob"
_MAGIC = 0x50424C52
_VERSION = 1
_LONGEST = (1 << 16) - 1


def is_pack(name: str) -> bool:
    """Whether this is the name of a pack of blobs."""
    return name.endswith(f".{MANAGED}")


def encode_references(uris: Iterable[str]) -> bytes:
    """The bytes of such a file; uris that name no pack are left out.

    Raises: UnsupportedError for a path of more than 64 KiB.
    """
    found = sorted({tuple(uri.rpartition("/")[::2]) for uri in uris if is_pack(uri)}, key=_java_order)
    body = struct.pack(">Bi", _VERSION, len(found)) + b"".join(_text(part) for pair in found for part in pair)
    return struct.pack(">I", _MAGIC) + body + struct.pack(">I", zlib.crc32(body))


def _java_order(pair: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(part.encode("utf-16-be", "surrogatepass") for part in pair)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    signs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))  # of one path
    data = b"".join(b"\xc0\x80" if sign == 0 else chr(sign).encode("utf-8", "surrogatepass") for sign in signs)
    if len(data) > _LONGEST:
        raise UnsupportedError("a path of more than 64 KiB", path=text[:200])
    return struct.pack(">H", len(data)) + data
